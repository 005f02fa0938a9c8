import { findDatabase } from '../../app/open.ts'
import { checkSuitable, describeWait, migrate } from '../../db/migrate.ts'
import { describeNewer } from '../../db/schema-state.ts'
import type { HeldLock } from '../../model/held-lock.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { dataFolderOf, requireDatabase } from '../operate.ts'
import { writeJson } from '../output/json.ts'
import { painter } from '../output/style.ts'

interface MigrateOptions extends CommonOptions {
  readonly dryRun?: boolean
}

/** `sluice migrate` */
export const declareMigrate: Declare = (command, act) => {
  command
    .option('--dry-run', 'only list the migrations that would be applied')
    .addHelpText('after', '\nApplies all migrations or none. Concurrent migrations run one after the other.')
    .action((options: MigrateOptions) => act((world) => runMigrate(world, options)))
}

async function runMigrate(world: World, options: MigrateOptions): Promise<ExitCode> {
  const dataFolder = dataFolderOf(world, options)
  if (options.dryRun === true) requireDatabase(world, dataFolder)
  const place = await findDatabase({ dataFolder })
  try {
    const { applied, available } = await checkSuitable(place.url)
    const dryRun = options.dryRun === true
    const after = Math.max(applied, available)
    const onWait = (lock: HeldLock) =>
      world.err.line(`${painter(world.err)('yellow', 'warning:')} ${describeWait(lock)}`)
    const { ran } = await migrate(place.url, { dryRun, onWait })
    if (options.json === true) {
      writeJson(world.out, {
        before: applied,
        after: dryRun ? applied : after,
        available,
        dryRun,
        migrations: ran,
      })
    } else if (applied > available) world.out.line(describeNewer({ applied, available }))
    else if (ran.length === 0) world.out.line(`the schema is up to date, at version ${available}`)
    else {
      for (const name of ran) world.out.line(`${dryRun ? 'would apply' : 'applied'} ${name}`)
      world.out.line(
        dryRun
          ? `the schema is at version ${applied} and would be at ${available}`
          : `the schema is at version ${available}`,
      )
    }
    return EXIT.done
  } finally {
    await place.release()
  }
}
