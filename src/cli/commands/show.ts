import { wasRejected } from '../../model/job.ts'
import { endingBeforeRerun } from '../../model/job-timeline.ts'
import type { JobView } from '../../store/find-jobs.ts'
import type { AttemptView } from '../../store/list-attempts.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { writeErrorDetail } from '../output/error-detail.ts'
import { roughly } from '../output/in-words.ts'
import { isScheduled } from '../output/job-line.ts'
import { writeJson } from '../output/json.ts'
import { writeFacts, writeTable } from '../output/table.ts'
import { writeTree } from './tree.ts'

const SHORT = 60
/** Characters of an input that are shown; of a workflow, whose steps say more, fewer. */
const LONG = 4000
const SHORT_OF_WORKFLOW = 200

/** `sluice show JOB` */
export const declareShow: Declare = (command, act) => {
  command
    .argument('<job>', 'id of the job')
    .action((id: string, options: CommonOptions) => act((world) => show(world, id, options)))
}

function show(world: World, id: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const job = await system.getJob(id)
    const attempts = await system.listAttempts(id)
    if (options.json === true) {
      writeJson(world.out, { ...job, attempts })
      return EXIT.done
    }
    const { job: seen, reason } = await system.why(id)
    // It may have moved on between the two looks: a reason of another status says nothing of this one.
    const holds = job.finishedAt === null && seen.status === job.status
    if (job.kind !== null) {
      writeTree(world, await system.tree(id, { depth: 1 }))
      world.out.line()
    }
    writeFacts(world.out, facts(job, holds ? reason : undefined))
    if (job.attempt > 1 || attempts.some((each) => each.error !== null)) {
      world.out.line()
      writeAttempts(world, withMissing(attempts))
    }
    for (const { attempt, detail } of attempts) {
      if (detail === null) continue
      world.out.line()
      world.out.line(`attempt ${attempt} threw`)
      writeErrorDetail(world.out, detail, '  ')
    }
    return EXIT.done
  })
}

function facts(job: JobView, reason: string | undefined): [string, string | undefined][] {
  const text = (value: string | null) => value ?? undefined
  const time = (value: Date | null) => value?.toISOString()
  return [
    ['job', job.id],
    ['task', job.task],
    ['lane', text(job.lane)],
    ['model', text(job.model)],
    ['device', job.devices.length === 0 ? undefined : job.devices.join(', ')],
    ['status', job.cancelling ? 'running, cancelling' : isScheduled(job) ? 'scheduled' : job.status],
    ['why', reason],
    ['progress', progress(job)],
    ['priority', String(job.priority)],
    ['key', text(job.key)],
    ['tags', job.tags.length === 0 ? undefined : job.tags.join(', ')],
    ['submitted', submitted(job)],
    ['ready', job.startedAt === null ? time(job.readyAt) : undefined],
    ['deadline', job.startedAt === null ? time(job.deadlineAt) : undefined],
    [wasRejected(job) ? 'rejected by' : 'approved by', text(job.approvedBy)],
    ['resubmission of', text(job.resubmitOf)],
    ['resubmitted as', job.resubmittedAs.length === 0 ? undefined : job.resubmittedAs.join(', ')],
    ['started', time(job.startedAt)],
    ['finished', finished(job)],
    ['worker', text(job.worker)],
    ['attempts', job.attempt === 0 ? undefined : tries(job)],
    ['input', bounded(value(job.input), job.kind === null ? LONG : SHORT_OF_WORKFLOW)],
    ['checkpoint', value(job.checkpoint)],
    ['result', job.status === 'completed' ? (value(job.result) ?? 'null') : undefined],
    [job.finishedAt === null ? 'last error' : 'error', text(job.error)],
  ]
}

function progress(job: JobView): string | undefined {
  if (job.progress === null) return job.message ?? undefined
  return `${Math.round(job.progress * 100)}% ${job.message ?? ''}`.trimEnd()
}

function submitted(job: JobView): string {
  const by = job.submittedBy === null ? '' : ` by ${job.submittedBy}`
  return `${job.submittedAt.toISOString()}${by}`
}

function finished(job: JobView): string | undefined {
  if (job.finishedAt === null) return undefined
  const ran =
    job.startedAt === null ? '' : `, ran ${roughly(job.finishedAt.getTime() - job.startedAt.getTime())}`
  return `${job.finishedAt.toISOString()}${ran}`
}

function tries(job: JobView): string {
  const parts = [String(job.attempt)]
  if (job.failures > 0) parts.push(`${job.failures} failed`)
  if (job.losses > 0) parts.push(`${job.losses} lost`)
  return parts.join(', ')
}

/** The input of a workflow can be a list of thousands: `--json` has all of it. */
function bounded(text: string | undefined, most: number): string | undefined {
  if (text === undefined || text.length <= most) return text
  return `${text.slice(0, most)}\n... ${text.length.toLocaleString('en')} characters in all; --json shows them`
}

/** On one line where it is short. */
function value(json: unknown): string | undefined {
  if (json === null || json === undefined) return undefined
  const line = JSON.stringify(json)
  return line.length <= SHORT ? line : JSON.stringify(json, null, 2)
}

/** More numbers than these in a row are not filled in. */
const MOST_MISSING = 20

/**
 * Numbers that no attempt has, in words. A claim that PostgreSQL forgot in a crash, or whose answer was lost, uses up a number
 * without an attempt.
 */
function withMissing(attempts: readonly AttemptView[]): AttemptView[] {
  const rows: AttemptView[] = []
  let next = 1
  for (const each of attempts) {
    for (; next < each.attempt && each.attempt - next <= MOST_MISSING; next++) rows.push(neverStarted(next))
    next = each.attempt + 1
    rows.push(each.ending === 'rerun' ? { ...each, ...endingBeforeRerun(each.error) } : each)
  }
  return rows
}

function neverStarted(attempt: number): AttemptView {
  const error = 'never started: the worker lost the job before it began'
  return { attempt, ending: 'lost', error, worker: null, startedAt: null, endedAt: null, detail: null }
}

function writeAttempts(world: World, attempts: readonly AttemptView[]): void {
  const length = ({ startedAt, endedAt }: AttemptView) =>
    startedAt === null || endedAt === null ? '' : roughly(endedAt.getTime() - startedAt.getTime())
  writeTable(
    world.out,
    [
      { title: 'ATTEMPT', value: (each) => String(each.attempt), align: 'right' },
      { title: 'ENDING', value: (each) => each.ending },
      { title: 'STARTED', value: (each) => each.startedAt?.toISOString() ?? '' },
      { title: 'RAN', value: length, align: 'right' },
      { title: 'WORKER', value: (each) => each.worker ?? '', shrinks: true },
      { title: 'ERROR', value: (each) => each.error ?? '', optional: true, shrinks: true },
    ],
    attempts,
  )
}
