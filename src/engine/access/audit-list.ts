import type { Queryable } from '../../db/database.ts'
import { checkWhole, invalidArgument } from '../../model/argument.ts'
import { type AuditFilter, type AuditView, listAudit } from '../../store/list-audit.ts'

export interface AuditPage {
  /** Newest first. */
  readonly entries: readonly AuditView[]
  /**
   * Pass it as `before` to continue; `null` when no more follow. A page may be short or empty although more follow.
   */
  readonly next: string | null
}

const MAX_PAGE = 1000
/**
 * The most entries that one call reads. A filter that matches few entries needs several calls, each in bounded time.
 */
const WINDOW = 20_000
const LAST = '9223372036854775807'

/** A page of the audit log. */
export async function readAudit(
  db: Queryable,
  filter: AuditFilter = {},
  page: { readonly before?: string | undefined; readonly limit?: number | undefined } = {},
): Promise<AuditPage> {
  const { before = LAST, limit = 100 } = page
  if (!/^[1-9]\d{0,18}$/.test(before))
    throw invalidArgument('before', before, 'the `next` of the previous page')
  checkWhole(limit, 'limit', 1, MAX_PAGE)
  const { entries, last, looked, oldest } = await listAudit(db, before, filter, WINDOW, limit)
  if (entries.length === limit) return { entries, next: entries.at(-1)!.id }
  const tooOld = filter.since !== undefined && oldest !== null && oldest < filter.since
  return { entries, next: looked < WINDOW || tooOld ? null : last }
}
