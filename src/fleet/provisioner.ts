import { messageOf, SluiceError } from '../errors.ts'

/** Workers that a pool has asked for. */
export interface StartRequest {
  /** The same token means the same workers: asking again starts none that was started before. */
  readonly token: string
  readonly pool: string
  /** Which ones of the request: 1 for the first. */
  readonly members: readonly number[]
  /** Jobs at once of each; 0: no limit of its own. */
  readonly capacity: number
  /** What each offers to tasks with `requires`. */
  readonly labels: Readonly<Record<string, string | number | boolean>>
}

/** What was started. Members that are in neither list were not tried. */
export interface Started {
  readonly instances: readonly { readonly member: number; readonly id: string }[]
  readonly failures: readonly { readonly member: number; readonly message: string }[]
}

export interface InstanceState {
  readonly id: string
  /** `unknown`: nobody can say; it may run. */
  readonly state: 'starting' | 'running' | 'stopped' | 'unknown'
  /** Why it stopped, where that is known. */
  readonly reason?: string
}

/**
 * Starts and stops workers for a pool.
 *
 * Every call ends when its signal fires, and may be made again after a failure or a crash. What a worker needs to find the
 * database or the server is not part of it: that is in the image, the task definition or the environment.
 *
 * @throws {SluiceError} `PROVISIONER_FAILED` with `details.kind`, when nothing at all could be done. `WrongAnswer` is one that names
 *   what has to be stopped.
 */
export interface Provisioner {
  start(request: StartRequest, signal: AbortSignal): Promise<Started>
  describe(ids: readonly string[], signal: AbortSignal): Promise<readonly InstanceState[]>
  /** Stopping what has stopped already, or what nobody knows, is no failure. What only another process can stop is one. */
  stop(ids: readonly string[], reason: string, signal: AbortSignal): Promise<void>
  /** Lets go of what it holds; workers that are this process's children are asked to end. */
  close(): Promise<void>
}

/** What the provisioners of this process have in common. */
export interface ProvisionerSetting {
  readonly pool: string
  /** As the config says. */
  readonly options: Readonly<Record<string, unknown>>
  /** Where relative paths start. */
  readonly folder: string
  /** The config file, if there is one. */
  readonly configFile: string | undefined
  /** How a child of this process finds the database. */
  readonly environment: Readonly<Record<string, string>>
}

/** throttled: too many calls. denied: it may not. timeout: no answer. refused: it will not. unreachable: nobody there. */
export type FailureKind = 'throttled' | 'denied' | 'timeout' | 'refused' | 'unreachable'

/** What a worker finds in its environment. With it, it is known as the one that was asked for. */
export function environmentOf(request: StartRequest, member: number): Readonly<Record<string, string>> {
  const labels = Object.entries(request.labels)
  return {
    SLUICE_POOL: request.pool,
    SLUICE_REQUEST: `${request.token}.${member}`,
    SLUICE_CAPACITY: String(request.capacity),
    ...(labels.length > 0 && { SLUICE_LABELS: JSON.stringify(request.labels) }),
  }
}

export function provisionerFailed(kind: FailureKind, message: string, cause?: unknown): SluiceError {
  return new SluiceError('PROVISIONER_FAILED', message, { details: { kind }, cause })
}

/**
 * A provisioner's answer that cannot be right. What it names all the same may have been started, and is to be stopped; a member that
 * was not asked for is 0 there.
 */
export class WrongAnswer extends SluiceError {
  readonly instances: Started['instances']

  constructor(message: string, instances: Started['instances']) {
    super('PROVISIONER_FAILED', message, { details: { kind: 'refused' satisfies FailureKind } })
    this.instances = instances
  }
}

/**
 * Each member was asked for and is named once, each id is that of one worker: who is who must be known, or a worker that has come would be
 * stopped as one that has not.
 *
 * @throws {WrongAnswer}
 */
export function checkStarted(started: Started, asked: readonly number[]): Started {
  const { instances, failures } = started
  const wrong = (message: string) =>
    new WrongAnswer(
      `the provisioner's answer: ${message}`,
      instances.map(({ member, id }) => ({ member: asked.includes(member) ? member : 0, id })),
    )
  const ids = new Set<string>()
  const members = new Set<number>()
  for (const { member, id } of instances) {
    if (!asked.includes(member)) throw wrong(`member must be one of ${asked.join(', ')}`)
    if (members.has(member)) throw wrong(`member ${member} is named twice`)
    if (ids.has(id)) throw wrong(`two members have the id ${id}`)
    members.add(member)
    ids.add(id)
  }
  if (failures.some(({ member }) => !asked.includes(member)))
    throw wrong(`member must be one of ${asked.join(', ')}`)
  return started
}

/** How many calls for one request are under way at once: clouds count them per second. */
const CALLS_AT_ONCE = 5

/**
 * Starts members one by one, a few at a time, so that each is known by itself.
 *
 * @throws the first failure when none could be started.
 */
export async function startEach(
  request: StartRequest,
  start: (member: number) => Promise<string>,
): Promise<Started> {
  const instances: { member: number; id: string }[] = []
  const failures: { member: number; message: string }[] = []
  const errors: unknown[] = []
  const left = [...request.members]
  const next = async (): Promise<void> => {
    for (let member = left.shift(); member !== undefined; member = left.shift()) {
      try {
        instances.push({ member, id: await start(member) })
      } catch (error) {
        errors.push(error)
        failures.push({ member, message: messageOf(error) })
        // Whoever is throttled or denied is so for the rest too, and each more call makes it worse.
        if (instances.length === 0) left.length = 0
      }
    }
  }
  await Promise.all(Array.from({ length: CALLS_AT_ONCE }, next))
  if (instances.length === 0 && errors.length > 0) throw errors[0]
  const byMember = (a: { member: number }, b: { member: number }) => a.member - b.member
  return { instances: instances.sort(byMember), failures: failures.sort(byMember) }
}

/**
 * The package of an optional peer dependency.
 *
 * @throws {SluiceError} `INVALID_CONFIG` when it is not installed.
 */
export async function loadSdk<T>(name: string, kind: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
    if (code !== 'ERR_MODULE_NOT_FOUND') throw cause
    throw new SluiceError(
      'INVALID_CONFIG',
      `the provisioner ${kind} needs the package ${name}, which is not installed: npm install ${name}`,
      { cause },
    )
  }
}
