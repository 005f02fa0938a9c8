import { isDeepStrictEqual } from 'node:util'
import { parseDuration } from '../../model/duration.ts'
import type { AuditFilter, AuditView } from '../../store/list-audit.ts'
import { positiveNumber, since } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeTable } from '../output/table.ts'

interface AuditOptions extends CommonOptions {
  readonly actor?: string
  readonly action?: string
  readonly target?: string
  readonly refused?: boolean
  readonly since?: Date | string | number
  readonly before?: string
  readonly limit?: number
}

const DEFAULT_LIMIT = 50
/** The largest page there is. */
const PAGE = 1000

/** `sluice audit` */
export const declareAudit: Declare = (command, act) => {
  command
    .option('--actor <name>', 'only actions of this actor')
    .option('--action <action>', 'only this action, such as key.create; key. matches all that begin with it')
    .option('--target <target>', 'only actions on this target, such as "lane interactive"')
    .option('--refused', 'only rejected requests')
    .option('--since <time>', 'only since this time, or this long ago, such as 2h', since)
    .option('--before <id>', 'only entries with a smaller id: the next page')
    .option('-n, --limit <number>', 'maximum number of entries', positiveNumber, DEFAULT_LIMIT)
    .action((options: AuditOptions) => act((world) => showAudit(world, options)))
}

function showAudit(world: World, options: AuditOptions): Promise<ExitCode> {
  const { actor, action, target, refused, limit = DEFAULT_LIMIT } = options
  const filter: AuditFilter = { actor, action, target, refused, since: sinceOf(world, options) }
  return operate(world, options, async (system) => {
    const entries: AuditView[] = []
    let before = options.before
    // A page looks at a bounded part of the audit: where few entries fit, it takes several to find them.
    do {
      const page = await system.access.readAudit(filter, {
        before,
        limit: Math.min(PAGE, limit - entries.length),
      })
      entries.push(...page.entries)
      before = page.next ?? undefined
    } while (before !== undefined && entries.length < limit)
    if (options.json === true) writeJson(world.out, entries)
    else if (entries.length === 0) world.out.line('nothing found')
    else writeTable(world.out, COLUMNS, entries)
    return EXIT.done
  })
}

function sinceOf(world: World, { since }: AuditOptions): Date | undefined {
  if (since === undefined || since instanceof Date) return since
  return new Date(world.now().getTime() - parseDuration(since, 'since'))
}

const COLUMNS: readonly Column<AuditView>[] = [
  { title: 'ID', value: (entry) => entry.id, align: 'right' },
  { title: 'AT', value: (entry) => entry.at.toISOString() },
  { title: 'ACTOR', value: (entry) => entry.actor, shrinks: true },
  { title: 'KEY', value: (entry) => entry.keyId ?? '', align: 'right', optional: true },
  { title: 'ACTION', value: (entry) => entry.action },
  { title: 'TARGET', value: (entry) => entry.target ?? '', shrinks: true },
  {
    title: 'REFUSED',
    value: (entry) => entry.refused ?? '',
    optional: true,
    colour: (entry) => (entry.refused === null ? undefined : 'red'),
  },
  { title: 'CHANGE', value: changeOf, shrinks: true, optional: true },
  { title: 'REASON', value: (entry) => entry.reason ?? '', shrinks: true, optional: true },
]

/** Of a change only the fields that differ: what stayed is in the JSON. */
export function changeOf({ before, after }: Pick<AuditView, 'before' | 'after'>): string {
  if (before === null) return after === null ? '' : JSON.stringify(after)
  if (!isRecord(before) || !isRecord(after)) return `${JSON.stringify(before)} -> ${JSON.stringify(after)}`
  const differing = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => !isDeepStrictEqual(before[name], after[name]),
  )
  if (differing.length === 0) return 'as it was'
  const only = (of: Readonly<Record<string, unknown>>) =>
    JSON.stringify(Object.fromEntries(differing.filter((name) => name in of).map((name) => [name, of[name]])))
  return `${only(before)} -> ${only(after)}`
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
