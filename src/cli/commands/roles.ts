import type { RoleView } from '../../store/list-roles.ts'
import { list } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { declareList, declareShowOne } from '../noun.ts'
import { operate } from '../operate.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeFacts, writeTable } from '../output/table.ts'

interface AllowOptions extends CommonOptions {
  readonly allow: readonly string[]
}

/** `sluice roles`, and `list`, `show`, `create`, `set` and `delete` below it */
export const declareRoles: Declare = (command, act) => {
  declareList(command, act, listRoles)
  declareShowOne(command, act, {
    noun: 'role',
    missing: 'ROLE_NOT_FOUND',
    all: (system) => system.access.listRoles(),
    nameOf: (role: RoleView) => role.name,
    print: printRole,
  })
  command
    .command('create')
    .description('create a role')
    .argument('<name>', 'name of the role')
    .requiredOption('--allow <list>', 'permissions, with commas between', list)
    .action((name: string, options: AllowOptions) => act((world) => saveRole(world, name, options, true)))
  command
    .command('set')
    .description('replace the permissions of a role, for all keys that have it')
    .argument('<name>', 'name of the role')
    .requiredOption('--allow <list>', 'all its permissions, with commas between', list)
    .action((name: string, options: AllowOptions) => act((world) => saveRole(world, name, options, false)))
  command
    .command('delete')
    .description('delete a role that no key has ever had')
    .argument('<name>', 'name of the role')
    .action((name: string, options: CommonOptions) => act((world) => deleteRole(world, name, options)))
}

const COLUMNS: readonly Column<RoleView>[] = [
  { title: 'ROLE', value: (role) => role.name },
  { title: 'KIND', value: (role) => (role.builtIn ? 'built in' : 'custom') },
  { title: 'KEYS', value: (role) => String(role.keys), align: 'right' },
  { title: 'PERMISSIONS', value: (role) => role.permissions.join(' '), shrinks: true },
]

function listRoles(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const roles = await system.access.listRoles()
    if (options.json === true) writeJson(world.out, roles)
    else writeTable(world.out, COLUMNS, roles)
    return EXIT.done
  })
}

function saveRole(world: World, name: string, options: AllowOptions, isNew: boolean): Promise<ExitCode> {
  const { allow } = options
  return operate(world, options, async (system) => {
    const { access } = system
    const role = isNew ? await access.createRole(name, allow) : await access.changeRole(name, allow)
    return printRole(world, role, options)
  })
}

function printRole(world: World, role: RoleView, options: CommonOptions): ExitCode {
  if (options.json === true) writeJson(world.out, role)
  else
    writeFacts(world.out, [
      ['role', role.name],
      ['may', role.permissions.join(', ')],
      ['keys', String(role.keys)],
    ])
  return EXIT.done
}

function deleteRole(world: World, name: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    await system.access.deleteRole(name)
    if (options.json === true) writeJson(world.out, { name, deleted: true })
    else world.out.line(`role ${name} is deleted`)
    return EXIT.done
  })
}
