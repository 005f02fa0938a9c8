/** What the engine may have to put right; sql/migrations/0007_history.sql says what each is. */
export const RECOVERY_KINDS = ['taken_over', 'late_write', 'orphan', 'drift', 'healed'] as const
export type RecoveryKind = (typeof RECOVERY_KINDS)[number]
