import { InvalidArgumentError } from 'commander'
import { describeDefaults } from '../../engine/operate/server-defaults.ts'
import { ADMISSION_CHANGES, ADMISSION_FIELDS, MAX_QUEUED } from '../../model/fields/admission.ts'
import { DEADLINE } from '../../model/task-fields.ts'
import type { Admission } from '../../store/read-admission.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { type FieldOptions, givenFields, withFieldOptions } from '../field-options.ts'
import { operate } from '../operate.ts'
import { writeJson } from '../output/json.ts'
import { writeFacts } from '../output/table.ts'
import type { System } from '../system.ts'

type Depths = Readonly<Record<string, number | null>>

type AdmissionOptions = CommonOptions &
  FieldOptions<typeof ADMISSION_CHANGES> & { readonly maxQueued?: Depths }

/** `sluice admission [--max-active N] [--max-scheduled N] [--max-per-owner N] [--max-queued TASK=N] [--deadline DURATION]`, `sluice admission reset` */
export const declareAdmission: Declare = (command, act) => {
  withFieldOptions(command, ADMISSION_FIELDS).option(
    '--max-queued <task=number|none>',
    'maximum number of waiting root jobs of a task; may be repeated',
    depth,
  )
  withFieldOptions(command, { deadline: ADMISSION_CHANGES.deadline }).action((options: AdmissionOptions) =>
    act((world) => admission(world, options)),
  )
  command
    .command('reset')
    .description('undo the changes of operators: the limits of files and programs apply again')
    .action((options: CommonOptions) =>
      act((world) => print(world, options, (system) => system.resetAdmission())),
    )
}

function depth(text: string, before: Depths = {}): Depths {
  const [, task, limit] = /^([^=]+)=(.+)$/.exec(text) ?? []
  const value = limit === undefined ? undefined : MAX_QUEUED.readText(limit)
  if (task === undefined || value === undefined)
    throw new InvalidArgumentError(
      'Write a task and a whole number of at least 1, such as resize=500, or resize=none.',
    )
  return { ...before, [task]: value }
}

function admission(world: World, options: AdmissionOptions): Promise<ExitCode> {
  const { maxQueued } = options
  const change = {
    ...givenFields(ADMISSION_CHANGES, options),
    ...(maxQueued !== undefined && { maxQueued }),
  }
  if (Object.keys(change).length === 0) return print(world, options, (system) => system.admission())
  return print(world, options, (system) => system.setAdmission(change))
}

function print(
  world: World,
  options: CommonOptions,
  ask: (system: System) => Promise<Admission>,
): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const found = await ask(system)
    if (options.json === true) writeJson(world.out, found)
    else writeFacts(world.out, factsOf(found))
    return EXIT.done
  })
}

function factsOf(admission: Admission): [string, string | undefined][] {
  const { maxActive, maxScheduled, maxQueued, deadlineMs, drainRate, operatorSet, defaultSet } = admission
  const { active, scheduled, queued, maxPerOwner, owners } = admission
  const tasks = Object.keys(maxQueued).sort()
  const most = Object.entries(owners ?? {}).sort(([, a], [, b]) => b - a)
  return [
    ['active', maxActive === null ? 'no ceiling' : `${active} of at most ${maxActive}`],
    ['scheduled', maxScheduled === null ? 'no limit' : `${scheduled} of at most ${maxScheduled}`],
    ...(maxPerOwner === null ? [] : [['of one owner', `at most ${maxPerOwner}`] as [string, string]]),
    ...most.map(([owner, jobs]): [string, string] => [
      `jobs of ${owner}`,
      `${jobs} of at most ${maxPerOwner}`,
    ]),
    ...tasks.map((task): [string, string] => [
      `waiting ${task}`,
      `${queued[task] ?? 0} of at most ${maxQueued[task]}`,
    ]),
    ...(maxActive === null && tasks.length === 0
      ? []
      : [['ended', `${drainRate.toFixed(1)} in a second`] as [string, string]]),
    [
      'start deadline',
      deadlineMs === null ? 'none' : `${DEADLINE.format(deadlineMs)}, unless job or task say otherwise`,
    ],
    ['set by operator', operatorSet.join(', ') || 'nothing'],
    ['server default', describeDefaults(admission, defaultSet)],
  ]
}
