/** The tables to which every job is written. A lock on one of them blocks submissions, claims or outcomes. */
export const JOB_TABLES: readonly string[] = ['job_data', 'queue', 'claims', 'outcomes']
