import type { KeyView } from '../../store/list-keys.ts'
import { duration } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { roughly } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeFacts, writeTable } from '../output/table.ts'

interface CreateOptions extends CommonOptions {
  readonly role: string
  readonly expires?: string | number
}

/** `sluice keys`, `sluice keys create NAME --role ROLE`, `sluice keys revoke ID` */
export const declareKeys: Declare = (command, act) => {
  command.action((options: CommonOptions) => act((world) => listKeys(world, options)))
  command
    .command('create')
    .description('make a key for the HTTP API; it is shown once')
    .argument('<name>', 'whose it is: what its jobs and the audit say')
    .requiredOption('--role <role>', 'what it may do; sluice roles lists them')
    .option('--expires <duration>', 'how long it lives, such as 30d. Default: until it is revoked', duration)
    .action((name: string, options: CreateOptions) => act((world) => createKey(world, name, options)))
  command
    .command('revoke')
    .description('revoke a key, at once and on every server')
    .argument('<id>', 'id of the key')
    .action((id: string, options: CommonOptions) => act((world) => revokeKey(world, id, options)))
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
    { title: 'USED', value: (key) => ago(key.lastUsedAt) || 'never', align: 'right' },
    { title: 'CREATED', value: (key) => ago(key.createdAt), align: 'right' },
    { title: 'BY', value: (key) => key.createdBy, shrinks: true },
    { title: 'EXPIRES', value: (key) => key.expiresAt?.toISOString() ?? '', optional: true },
    { title: 'REVOKED BY', value: (key) => key.revokedBy ?? '', shrinks: true, optional: true },
  ]
}

function createKey(world: World, name: string, options: CreateOptions): Promise<ExitCode> {
  const { role, expires = null } = options
  return operate(world, options, async (system) => {
    const created = await system.access.createKey({ name, role, expires })
    if (options.json === true) writeJson(world.out, created)
    else {
      writeFacts(world.out, [
        ['key', created.key],
        ['id', created.id],
        ['name', created.name],
        ['role', created.role],
        ['expires', created.expiresAt?.toISOString() ?? 'never'],
      ])
      world.err.line('keep it: it is not shown again')
    }
    return EXIT.done
  })
}

function revokeKey(world: World, id: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const key = await system.access.revokeKey(id)
    if (options.json === true) writeJson(world.out, key)
    else world.out.line(`key ${key.id} of ${key.name} is revoked`)
    return EXIT.done
  })
}
