import type { Comparison, DecidedStep, Trace, TraceLevel } from '../../engine/views/trace.ts'
import type { JsonDifference } from '../../model/json-difference.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { describeCounts, describeTime, markOf, statusText } from '../output/job-line.ts'
import { writeJson } from '../output/json.ts'
import { painter } from '../output/style.ts'
import { cut, printable } from '../output/text-width.ts'

/** Of a value in a line; of a whole input. */
const SHORT = 60
const LONG = 300
const SHOWN_DIFFERENCES = 6

/** `sluice trace JOB` */
export const declareTrace: Declare = (command, act) => {
  command
    .argument('<job>', 'id of a job that failed, or of the workflow it is in')
    .addHelpText(
      'after',
      '\nFollows the failure up to the root: the input of each level, its earlier decisions, and how its input' +
        '\ndiffers from that of a successful job: the nearest item that completed, or the last successful run.',
    )
    .action((id: string, options: CommonOptions) => act((world) => trace(world, id, options)))
}

function trace(world: World, id: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const found = await system.trace(id)
    if (options.json === true) writeJson(world.out, found)
    else writeTrace(world, found)
    return EXIT.done
  })
}

function writeTrace(world: World, { levels, suspect }: Trace): void {
  const paint = painter(world.out)
  levels.forEach((level, at) => {
    const [mark, colour] = markOf(level.status)
    const time = describeTime(level, world.now())
    const facts = [
      statusText(level.status),
      ...(time === undefined ? [] : [time]),
      ...(level.attempts > 1 ? [`${level.attempts} attempts`] : []),
    ]
    const place = paint('bold', printable(failurePath(levels.slice(at))))
    world.out.line(`${paint(colour, mark)} ${place} (job ${level.id}) ${facts.join(', ')}`)
    writeLevel(world, level, levels[at - 1], level.id === suspect)
    world.out.line()
  })
  world.out.line(conclusion(levels, suspect))
}

function writeLevel(
  world: World,
  level: TraceLevel,
  below: TraceLevel | undefined,
  isSuspect: boolean,
): void {
  const paint = painter(world.out)
  const fact = (name: string, value: string) => {
    world.out.line(`  ${paint('dim', name.padEnd(9))} ${value}`)
  }
  if (level.kind === null || (level.kind === 'workflow' && level.step !== null))
    fact('task', printable(level.task))
  fact('input', shown(level.input, LONG))
  level.sources?.forEach((source, at) => {
    fact(at === 0 ? 'made from' : '', `${describeStep(world, source, false)} (job ${source.id})`)
  })
  if (level.error !== null) fact('error', paint('red', printable(level.error)))
  if (level.counts !== undefined) {
    const places = (level.failedAt ?? []).map((place) => `[${place}]`).join(' ')
    fact('children', `${describeCounts(level.counts)}${places === '' ? '' : `: ${places}`}`)
  }
  level.steps?.forEach((step, at) => {
    fact(at === 0 ? 'steps' : '', describeStep(world, step, step.id !== null && step.id === below?.id))
  })
  if (level.comparison !== undefined) writeComparison(world, fact, level.comparison, isSuspect)
}

function describeStep(world: World, { step, status, why, handled }: DecidedStep, isHere: boolean): string {
  const paint = painter(world.out)
  const [mark, colour] = markOf(status)
  const words = [statusText(status), ...(handled ? ['handled'] : [])].join(', ')
  // The error of the step that leads on has been told one level down.
  const reason = why === null || isHere ? '' : `: ${cut(printable(why), LONG)}`
  return `${paint(colour, mark)} ${printable(step)} ${words}${reason}${isHere ? paint('bold', ' <- here') : ''}`
}

function writeComparison(
  world: World,
  fact: (name: string, value: string) => void,
  comparison: Comparison,
  isSuspect: boolean,
): void {
  const paint = painter(world.out)
  const { differences, more } = comparison
  const good = goodOne(comparison)
  if (differences.length === 0) {
    fact('compared', `the input is the same as that of ${good}`)
    return
  }
  fact('compared', paint(isSuspect ? 'yellow' : 'dim', `the input differs from that of ${good}:`))
  for (const each of differences.slice(0, SHOWN_DIFFERENCES)) fact('', describeDifference(each))
  const left = differences.length - SHOWN_DIFFERENCES
  if (left > 0) fact('', `and in ${left}${more ? ' or more' : ''} other places`)
}

function goodOne({ with: id, how, index }: Comparison): string {
  return how === 'sibling' ? `item [${index}], job ${id}, which completed` : `job ${id} in the last good run`
}

function describeDifference({ path, here, there }: JsonDifference): string {
  const name = path === '' ? '' : `${printable(path)}: `
  if (there === undefined) return `${name}${shown(here, SHORT)} here, nothing there`
  if (here === undefined) return `${name}nothing here, ${shown(there, SHORT)} there`
  return `${name}${shown(here, SHORT)} here, ${shown(there, SHORT)} there`
}

/** `pipeline > align > [17]` */
function failurePath(upwards: readonly TraceLevel[]): string {
  return upwards
    .map(({ step, index, task }, at) => (upwards[at + 1]?.kind === 'fanout' ? `[${index}]` : (step ?? task)))
    .reverse()
    .join(' > ')
}

function conclusion(levels: readonly TraceLevel[], suspect: string | null): string {
  const [failure] = levels
  if (suspect !== null) {
    return suspect === failure!.id
      ? `The input of the failed job itself, job ${suspect}, is the first that differs from a good one.`
      : `Job ${suspect} is the first on the way up whose input differs from a good one.`
  }
  if (levels.every(({ comparison }) => comparison === undefined))
    return 'There is no good job to compare with: no item beside it and no other run has completed.'
  return 'No input on the way up differs from a good one: look at the task, or at what it depends on.'
}

function shown(value: unknown, columns: number): string {
  return cut(printable(JSON.stringify(value ?? null)), columns)
}
