import { findMisplaced } from '../../app/misplaced-tasks.ts'
import { findDatabase } from '../../app/open.ts'
import { lanesOfTasks } from '../../config/lanes-of-tasks.ts'
import { type LoadedConfig, loadConfig } from '../../config/load-config.ts'
import { Database } from '../../db/database.ts'
import { readMigrationState } from '../../db/migrate.ts'
import { diagnose } from '../../engine/diagnosis/diagnosis.ts'
import type { Finding } from '../../engine/diagnosis/finding.ts'
import { SluiceError } from '../../errors.ts'
import { resolveSettings, type Settings } from '../../model/settings.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { dataFolderOf, requireDatabase } from '../operate.ts'
import { count } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { type Colour, painter } from '../output/style.ts'
import { printable } from '../output/text-width.ts'

interface DoctorOptions extends CommonOptions {
  readonly quiet?: boolean
}

/** `sluice doctor` */
export const declareDoctor: Declare = (command, act) => {
  command
    .option('-q, --quiet', 'only findings that need attention')
    .addHelpText('after', '\nChanges nothing. Exits with 1 if it finds a problem.')
    .action((options: DoctorOptions) => act((world) => doctor(world, options)))
}

async function doctor(world: World, options: DoctorOptions): Promise<ExitCode> {
  const dataFolder = dataFolderOf(world, options)
  requireDatabase(world, dataFolder)
  const place = await findDatabase({ dataFolder })
  try {
    const db = new Database({ url: place.url, maxConnections: 2, applicationName: 'sluice-doctor' })
    try {
      const { settings, findings, config } = await readSettings(world, options)
      const here = (config?.tasks ?? []).map(({ name }) => name)
      const patient = {
        ...{ db, settings, now: world.now().getTime() },
        schema: () => readMigrationState(place.url),
        ...(config !== undefined && { placements: lanesOfTasks(config.config) }),
        findMisplaced: (known: readonly string[]) => findMisplaced(config, [...known, ...here]),
      }
      const print = printer(world, options)
      for (const finding of findings) print(finding)
      for await (const finding of diagnose(patient)) {
        findings.push(finding)
        print(finding)
      }
      return summarise(world, options, findings)
    } finally {
      await db.close()
    }
  } finally {
    await place.release()
  }
}

/** A config that cannot work is a finding, and no reason to look at nothing else. */
async function readSettings(
  world: World,
  options: CommonOptions,
): Promise<{ settings: Settings | undefined; findings: Finding[]; config: LoadedConfig | undefined }> {
  try {
    const config = await loadConfig({ path: options.config, folder: world.folder })
    const { config: file, locate } = config
    const settings = resolveSettings({ file, locate, environment: world.environment })
    return { settings, findings: [], config }
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error
    const finding: Finding = {
      check: 'config',
      level: 'problem',
      found: error.message,
      advice: 'sluice check tells when it is right',
    }
    return { settings: undefined, findings: [finding], config: undefined }
  }
}

const COLOURS: Readonly<Record<Finding['level'], Colour>> = {
  ok: 'green',
  note: 'cyan',
  warning: 'yellow',
  problem: 'red',
}

function printer(world: World, options: DoctorOptions): (finding: Finding) => void {
  if (options.json === true) return () => {}
  const paint = painter(world.out)
  return ({ level, check, found, advice }) => {
    if (options.quiet === true && level === 'ok') return
    const [first = '', ...rest] = found.split('\n').map(printable)
    world.out.line(`${paint(COLOURS[level], level.padEnd(7))}  ${check}: ${first}`)
    for (const line of rest) world.out.line(`         ${line}`)
    if (advice !== undefined) world.out.line(`         ${paint('dim', '->')} ${printable(advice)}`)
  }
}

function summarise(world: World, options: DoctorOptions, findings: readonly Finding[]): ExitCode {
  const number = (level: Finding['level']) => findings.filter((finding) => finding.level === level).length
  const healthy = number('problem') === 0
  if (options.json === true) writeJson(world.out, { healthy, findings })
  else {
    const parts = [
      count(number('problem'), 'problem'),
      count(number('warning'), 'warning'),
      count(number('note'), 'note'),
    ]
    world.out.line(`${parts.join(', ')} in ${count(findings.length, 'finding')}`)
  }
  return healthy ? EXIT.done : EXIT.failed
}
