/** Tables that every job is written to. A lock on one of them stops submissions, claims or endings. */
export const JOB_TABLES: readonly string[] = ['job_data', 'queue', 'claims', 'outcomes']
