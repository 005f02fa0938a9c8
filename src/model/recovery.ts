/** What the engine repairs. sql/migrations/0007_history.sql describes each kind. */
export const RECOVERY_KINDS = ['taken_over', 'late_write', 'orphan', 'drift', 'healed'] as const
export type RecoveryKind = (typeof RECOVERY_KINDS)[number]
