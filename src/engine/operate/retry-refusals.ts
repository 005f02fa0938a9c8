import { SluiceError } from '../../errors.ts'
import { invalidArgument } from '../../model/argument.ts'
import { statusOf } from '../../model/job.ts'
import { suggest } from '../../model/suggest.ts'
import type { PathJob } from '../../store/load-path.ts'
import type { EndedJob } from '../../workflow/advance/retry-plan.ts'
import type { BodyPlan } from '../../workflow/plan.ts'

/** The kind of a job in words. */
export function nameOf({ kind }: PathJob): string {
  return kind === 'fanout' ? 'fan-out' : (kind ?? 'task')
}

export function illegal(id: string, why: string, details: Record<string, unknown> = {}): SluiceError {
  return new SluiceError('ILLEGAL_TRANSITION', `job ${id} cannot run again: ${why}`, {
    details: { jobId: id, ...details },
  })
}

export function superseded({ id }: PathJob): SluiceError {
  return illegal(id, 'it is history: a rerun has replaced it')
}

export function stillActive(job: PathJob, root: PathJob, active: Pick<PathJob, 'id' | 'state'>): SluiceError {
  const status = statusOf(active.state)
  const which =
    active.id === job.id
      ? 'it'
      : active.id === root.id
        ? `its root, job ${root.id},`
        : `job ${active.id} in its tree`
  return illegal(job.id, `${which} is ${status}; the whole tree must have ended`)
}

export function notFailed(job: PathJob): SluiceError {
  const advice =
    job.kind === 'workflow' || job.kind === 'group' ? '; name a step to run it again from there' : ''
  return illegal(job.id, `it is ${statusOf(job.state)}, so nothing in it needs to run again${advice}`)
}

export function noSteps(job: PathJob, why: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', `from: job ${job.id} has no steps: ${why}`, {
    details: { jobId: job.id, argument: 'from' },
  })
}

export function unknownStep(job: EndedJob, { steps }: BodyPlan, name: string): SluiceError {
  const names = steps.map(({ step }) => step.name)
  const near = suggest(name, names)
  const advice = near === undefined ? `its steps are ${names.join(', ')}` : `did you mean ${near}?`
  const { message } = invalidArgument('from', name, `a step of job ${job.id}; ${advice}`)
  return new SluiceError('INVALID_ARGUMENT', message, { details: { jobId: job.id, argument: 'from' } })
}

export function noInput(job: EndedJob, step: string, why: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', `input: step ${step} does not accept one: ${why}`, {
    details: { jobId: job.id, argument: 'input' },
  })
}

export function notReached(job: EndedJob, step: string, why: string): SluiceError {
  return illegal(job.id, `step ${step} would not run, because ${why}`)
}
