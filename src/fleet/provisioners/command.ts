import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { messageOf } from '../../errors.ts'
import { checkList, checkOptions, checkText } from '../../model/argument.ts'
import { toStorableText } from '../../model/json.ts'
import { SECRET_VARIABLES } from '../../model/redact.ts'
import {
  environmentOf,
  type InstanceState,
  type Provisioner,
  type ProvisionerSetting,
  provisionerFailed,
  type Started,
  type StartRequest,
  WrongAnswer,
} from '../provisioner.ts'
import { resolveProgram } from '../resolve-program.ts'

/** The longest response of a program: some thousand instances. */
const MAX_ANSWER_BYTES = 1_048_576
/** How much of its stderr a message quotes. */
const MAX_COMPLAINT = 500
/** The longest id or failure message of a worker. */
const MAX_TEXT = 1000
/** How much of an invalid id a message shows. */
const MAX_SHOWN = 100
const STATES: readonly unknown[] = ['starting', 'running', 'stopped', 'unknown']

/**
 * Calls an operator's program: one call per request, JSON on stdin, JSON on stdout, exit code 0.
 *
 * The program must be idempotent: the same token and member twice is one worker. A program that exceeds the time limit
 * is killed with its process group.
 */
export class CommandProvisioner implements Provisioner {
  readonly #argv: readonly string[]
  readonly #pool: string
  readonly #folder: string

  constructor({ options, pool, folder }: ProvisionerSetting) {
    const name = `fleet.pools.${pool}.options`
    checkOptions(options, ['argv'], name)
    this.#argv = resolveProgram(checkList(options.argv, `${name}.argv`, checkText), folder, `${name}.argv`)
    this.#pool = pool
    this.#folder = folder
  }

  async start(request: StartRequest, signal: AbortSignal): Promise<Started> {
    const { token, pool, capacity, labels, members } = request
    const answer = await this.#ask(
      {
        action: 'start',
        pool,
        token,
        capacity,
        labels,
        members: members.map((member) => ({ member, environment: environmentOf(request, member) })),
      },
      signal,
    )
    const started = readStarted(answer, members)
    if (started.instances.length === 0 && started.failures.length > 0)
      throw provisionerFailed('refused', started.failures[0]!.message)
    return started
  }

  async describe(ids: readonly string[], signal: AbortSignal): Promise<readonly InstanceState[]> {
    const answer = await this.#ask({ action: 'describe', pool: this.#pool, instances: ids }, signal)
    const told = new Map(
      listOf(answer.instances, 'instances').map((each) => [requiredText(each.id, 'id'), each] as const),
    )
    return ids.map((id): InstanceState => {
      const { state, reason } = told.get(id) ?? {}
      return {
        id,
        state: STATES.includes(state) ? (state as InstanceState['state']) : 'unknown',
        ...(typeof reason === 'string' && { reason }),
      }
    })
  }

  async stop(ids: readonly string[], reason: string, signal: AbortSignal): Promise<void> {
    await this.#ask({ action: 'stop', pool: this.#pool, instances: ids, reason }, signal)
  }

  async close(): Promise<void> {}

  async #ask(question: object, signal: AbortSignal): Promise<Record<string, unknown>> {
    signal.throwIfAborted()
    const [command = '', ...args] = this.#argv
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !SECRET_VARIABLES.includes(name)),
    )
    const child = spawn(command, args, { cwd: this.#folder, env, detached: true, stdio: 'pipe' })
    const kill = () => {
      try {
        process.kill(-child.pid!, 'SIGKILL')
      } catch {
        // It has already ended.
      }
    }
    signal.addEventListener('abort', kill, { once: true })
    try {
      const exited = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>
      let tooMuch = false
      const out = collect(child.stdout, MAX_ANSWER_BYTES, () => {
        tooMuch = true
        kill()
      })
      const complaint = collect(child.stderr, MAX_ANSWER_BYTES, () => {})
      // A program that ends without reading breaks the pipe. Its exit code says why.
      child.stdin.on('error', () => {})
      child.stdin.end(JSON.stringify(question))
      const [code, by] = await exited
      if (signal.aborted) throw provisionerFailed('timeout', `${command} did not respond in time`)
      if (tooMuch)
        throw provisionerFailed('refused', `${command} responded with more than ${MAX_ANSWER_BYTES} bytes`)
      if (code !== 0) {
        const said = complaint().trim().slice(-MAX_COMPLAINT)
        const how = code === null ? `was ended by ${by}` : `ended with code ${code}`
        throw provisionerFailed('refused', `${command} ${how}${said === '' ? '' : `: ${said}`}`)
      }
      return parse(out(), command)
    } catch (cause) {
      if (cause instanceof Error && 'syscall' in cause)
        throw provisionerFailed('refused', `cannot start ${command}: ${messageOf(cause)}`, cause)
      throw cause
    } finally {
      signal.removeEventListener('abort', kill)
    }
  }
}

function collect(stream: NodeJS.ReadableStream, limit: number, onTooMuch: () => void): () => string {
  const chunks: Buffer[] = []
  let size = 0
  stream.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= limit) chunks.push(chunk)
    else onTooMuch()
  })
  return () => Buffer.concat(chunks).toString('utf8')
}

function parse(text: string, command: string): Record<string, unknown> {
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch (cause) {
    throw provisionerFailed('refused', `${command} did not respond with JSON: ${messageOf(cause)}`, cause)
  }
  if (typeof answer === 'object' && answer !== null && !Array.isArray(answer))
    return answer as Record<string, unknown>
  throw provisionerFailed('refused', `${command} did not respond with a JSON object`)
}

/** @throws {WrongAnswer}, which names what could be read. */
function readStarted(answer: Record<string, unknown>, asked: readonly number[]): Started {
  try {
    const instances = listOf(answer.instances, 'instances').map((each) => ({
      member: memberOf(each, asked),
      id: idOf(each.id),
    }))
    const failures = listOf(answer.failures ?? [], 'failures').map((each) => ({
      member: memberOf(each, asked),
      message: requiredText(each.message, 'message'),
    }))
    return { instances, failures }
  } catch (error) {
    throw new WrongAnswer(messageOf(error), readable(answer.instances, asked))
  }
}

/** Of a rejected response, each instance that has an id from the program. */
function readable(value: unknown, asked: readonly number[]): Started['instances'] {
  if (!Array.isArray(value)) return []
  return value.flatMap((each: unknown) => {
    const { id, member } = (each ?? {}) as { readonly id?: unknown; readonly member?: unknown }
    if (typeof id !== 'string' || id === '' || toStorableText(id, MAX_TEXT) !== id) return []
    return [{ member: typeof member === 'number' && asked.includes(member) ? member : 0, id }]
  })
}

function listOf(value: unknown, name: string): Record<string, unknown>[] {
  if (Array.isArray(value) && value.every((each) => typeof each === 'object' && each !== null)) return value
  throw provisionerFailed('refused', `the program's response: ${name} must be a list of objects`)
}

function requiredText(value: unknown, name: string): string {
  if (typeof value === 'string' && value !== '') return toStorableText(value, MAX_TEXT)
  throw provisionerFailed('refused', `the program's response: ${name} must be a text`)
}

/** An id is kept unchanged or not at all, because a changed one would stop nothing, or something else. */
function idOf(value: unknown): string {
  const id = requiredText(value, 'id')
  if (id === value) return id
  throw provisionerFailed(
    'refused',
    `the program's response: id must have at most ${MAX_TEXT} characters, without NUL and unpaired surrogates, but one is ${JSON.stringify(value).slice(0, MAX_SHOWN)}`,
  )
}

function memberOf({ member }: Record<string, unknown>, asked: readonly number[]): number {
  if (typeof member === 'number' && asked.includes(member)) return member
  throw provisionerFailed('refused', `the program's response: member must be one of ${asked.join(', ')}`)
}
