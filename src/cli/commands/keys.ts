import type { Command } from 'commander'
import type { NewKeyBody } from '../../api/keys.ts'
import { SluiceError } from '../../errors.ts'
import { RANK_RANGE } from '../../model/limits.ts'
import { ADMIN_ROLE } from '../../model/permissions.ts'
import type { RunScope } from '../../model/run-scope.ts'
import { count, orNone } from '../../model/setting-value.ts'
import type { KeyView } from '../../store/list-keys.ts'
import { duration, type Given, list, setting } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { declareList, declareShowOne } from '../noun.ts'
import { operate } from '../operate.ts'
import { roughly } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeFacts, writeTable } from '../output/table.ts'

/** What the workers of a key may run. */
interface ScopeOptions extends CommonOptions {
  readonly tasks?: readonly string[]
  readonly lanes?: readonly string[]
  readonly pools?: readonly string[]
  readonly maxCapacity?: Given<number | null>
  readonly minRank?: Given<number>
}

interface CreateOptions extends ScopeOptions {
  readonly role: string
  readonly expires?: string | number
  readonly takeover?: boolean
}

interface RevokeOptions extends CommonOptions {
  readonly withSchedules?: boolean
}

const MAX_CAPACITY = orNone(count({ min: 1 }))
const MIN_RANK = count(RANK_RANGE)

/** `sluice keys`, and `list`, `show`, `create`, `set` and `delete` below it */
export const declareKeys: Declare = (command, act) => {
  declareList(command, act, listKeys)
  declareShowOne(command, act, {
    noun: 'key',
    missing: 'KEY_NOT_FOUND',
    all: (system) => system.access.listKeys(),
    nameOf: (key: KeyView) => key.name,
    idOf: (key) => key.id,
    print: printKey,
  })
  const created = command
    .command('create')
    .description('create an API key; it is shown once')
    .argument('<name>', 'the owner, named by its jobs and by the audit log')
    .requiredOption('--role <role>', 'the role; sluice roles lists them')
    .option('--expires <duration>', 'lifetime, such as 30d (default: until revoked)', duration)
    .option(
      '--takeover',
      'allow a name that has jobs, schedules or former keys, and make the key their owner',
    )
    .action((name: string, options: CreateOptions) => act((world) => createKey(world, name, options)))
  scopeOptions(created)
  const set = command
    .command('set')
    .description('change what the workers of a key may run; omitted options keep their value')
    .argument('<id>', 'id of the key')
    .action((id: string, options: ScopeOptions) => act((world) => setKey(world, id, options)))
  scopeOptions(set)
  command
    .command('delete')
    .description('revoke a key at once, on every server; lists show it as revoked')
    .argument('<id>', 'id of the key')
    .option('--with-schedules', 'also disable the schedules of its owner, which keep firing otherwise')
    .action((id: string, options: RevokeOptions) => act((world) => revokeKey(world, id, options)))
}

function scopeOptions(command: Command): void {
  const patterns = (what: string) =>
    `${what}, with commas between; * stands for any characters, and "none" removes all`
  const read = (text: string) => (text === 'none' ? [] : list(text))
  command
    .option('--tasks <list>', patterns('tasks that its workers may run'), read)
    .option('--lanes <list>', patterns('lanes that its workers may take jobs from'), read)
    .option('--pools <list>', patterns('pools that its workers may join, if the pool requested them'), read)
    .option(
      '--max-capacity <number|none>',
      'highest capacity of its workers (default: 100)',
      setting(MAX_CAPACITY),
    )
    .option('--min-rank <number>', 'lowest rank of its workers (default: 0)', setting(MIN_RANK))
}

/** What was named; `undefined` where nothing was. */
function scopeOf({ tasks, lanes, pools, maxCapacity, minRank }: ScopeOptions): NamedScope | undefined {
  const named = {
    ...(tasks !== undefined && { tasks: [...tasks] }),
    ...(lanes !== undefined && { lanes: [...lanes] }),
    ...(pools !== undefined && { pools: [...pools] }),
    ...(maxCapacity !== undefined && { maxCapacity: maxCapacity.value }),
    ...(minRank !== undefined && { minRank: minRank.value }),
  }
  return Object.keys(named).length === 0 ? undefined : named
}

type NamedScope = NonNullable<NewKeyBody['runs']>

function scopeText({ tasks, lanes, pools, maxCapacity, minRank }: RunScope): string {
  const named = (what: string, patterns: readonly string[]) =>
    `${what}: ${patterns.length === 0 ? 'none' : patterns.join(', ')}`
  const places = [named('tasks', tasks), named('lanes', lanes), named('pools', pools)]
  return [...places, `capacity: ${maxCapacity ?? 'any'}`, `rank: ${minRank} or more`].join('; ')
}

function runsNothing({ tasks, lanes }: RunScope): boolean {
  return tasks.length === 0 || lanes.length === 0
}

function listKeys(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const keys = await system.access.listKeys()
    if (options.json === true) writeJson(world.out, keys)
    else if (keys.length === 0) world.out.line('no keys; sluice keys create NAME --role ROLE makes one')
    else writeTable(world.out, columns(world.now().getTime()), keys)
    return EXIT.done
  })
}

function columns(now: number): Column<KeyView>[] {
  const ago = (date: Date | null) => (date === null ? '' : `${roughly(now - date.getTime())} ago`)
  return [
    { title: 'ID', value: (key) => key.id, align: 'right' },
    { title: 'NAME', value: (key) => key.name, shrinks: true },
    { title: 'ROLE', value: (key) => key.role },
    {
      title: 'STATE',
      value: (key) => key.state,
      colour: (key) => (key.state === 'active' ? 'green' : 'dim'),
    },
    { title: 'LAST USED', value: (key) => ago(key.lastUsedAt) || 'never', align: 'right' },
    { title: 'CREATED', value: (key) => ago(key.createdAt), align: 'right' },
    { title: 'CREATED BY', value: (key) => key.createdBy, shrinks: true },
    { title: 'MAY RUN', value: ({ runs }) => shortly(runs), shrinks: true, optional: true },
    { title: 'EXPIRES', value: (key) => key.expiresAt?.toISOString() ?? '', optional: true },
    { title: 'REVOKED BY', value: (key) => key.revokedBy ?? '', shrinks: true, optional: true },
  ]
}

/** Tasks and lanes, for a table. */
function shortly(runs: RunScope | null): string {
  if (runs === null || runsNothing(runs)) return ''
  const lanes = runs.lanes.join() === '*' ? '' : ` in ${runs.lanes.join(', ')}`
  return `${runs.tasks.join(', ')}${lanes}`
}

function printKey(world: World, key: KeyView, options: CommonOptions): ExitCode {
  if (options.json === true) writeJson(world.out, key)
  else
    writeFacts(world.out, [
      ['key', key.id],
      ['name', key.name],
      ['role', key.role],
      ['state', key.state],
      ['runs', key.runs === null ? undefined : scopeText(key.runs)],
      ['created', `${key.createdAt.toISOString()} by ${key.createdBy}`],
      ['last used', key.lastUsedAt?.toISOString() ?? 'never'],
      ['expires', key.expiresAt?.toISOString() ?? 'never'],
      ['revoked', key.revokedAt === null ? undefined : `${key.revokedAt.toISOString()} by ${key.revokedBy}`],
    ])
  return EXIT.done
}

function createKey(world: World, name: string, options: CreateOptions): Promise<ExitCode> {
  const { role, expires = null, takeover } = options
  const runs = scopeOf(options)
  return operate(world, options, async (system) => {
    const created = await system.access.createKey({
      name,
      role,
      expires,
      ...(runs !== undefined && { runs }),
      ...(takeover !== undefined && { takeover }),
    })
    if (options.json === true) writeJson(world.out, created)
    else {
      writeFacts(world.out, [
        ['key', created.key],
        ['id', created.id],
        ['name', created.name],
        ['role', created.role],
        ...(created.runs === null || role === ADMIN_ROLE ? [] : [['runs', scopeText(created.runs)] as const]),
        ['expires', created.expiresAt?.toISOString() ?? 'never'],
      ])
      world.err.line('keep it: it is not shown again')
      if (created.runs !== null && runsNothing(created.runs) && role !== ADMIN_ROLE)
        world.err.line(
          `it runs nothing yet: name tasks and lanes, such as sluice keys set ${created.id} --tasks '*' --lanes '*'`,
        )
    }
    return EXIT.done
  })
}

function setKey(world: World, id: string, options: ScopeOptions): Promise<ExitCode> {
  const runs = scopeOf(options)
  if (runs === undefined)
    throw new SluiceError(
      'INVALID_ARGUMENT',
      'name what to change: --tasks, --lanes, --pools, --max-capacity or --min-rank',
    )
  return operate(world, options, async (system) => {
    const key = await system.access.changeKey(id, { runs })
    if (options.json === true) writeJson(world.out, key)
    else
      world.out.line(
        `key ${key.id} of ${key.name} runs ${key.runs === null ? 'nothing' : scopeText(key.runs)}`,
      )
    return EXIT.done
  })
}

function revokeKey(world: World, id: string, options: RevokeOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const { withSchedules = false } = options
    const key = await system.access.revokeKey(id, { withSchedules })
    if (options.json === true) writeJson(world.out, key)
    else {
      world.out.line(`key ${key.id} of ${key.name} is revoked`)
      if (withSchedules)
        world.out.line(
          key.pausedSchedules.length === 0
            ? `${key.name} has no enabled schedules`
            : `disabled schedules of ${key.name}: ${key.pausedSchedules.join(', ')}`,
        )
    }
    return EXIT.done
  })
}
