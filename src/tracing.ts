import { createRequire } from 'node:module'
import type { Context, Span, SpanContext, Tracer } from '@opentelemetry/api'
import { messageOf } from './errors.ts'
import { VERSION } from './version.ts'

/**
 * Traces, where the program has set up OpenTelemetry: from a submission to every attempt of its job, across processes.
 *
 * What is kept with a job is the text of a `traceparent`, then after a space that of a `tracestate` if there is one. It is
 * made and read here, so that it does not depend on which propagator a program has chosen, and holds no baggage.
 */

type Api = typeof import('@opentelemetry/api')

/**
 * Where every copy of the API, of whatever 1.x, keeps what a program has set up. While it is empty nothing is, and the API
 * is not loaded: that would be 10 ms at the start of every command, and 0.1 µs at every attempt.
 */
const REGISTRY = Symbol.for('opentelemetry.js.api.1')

let loaded: Api | undefined
let known: Tracer | undefined

/** `undefined` where nothing is set up. */
function api(): Api | undefined {
  if (loaded === undefined && (globalThis as Record<symbol, unknown>)[REGISTRY] !== undefined)
    loaded = createRequire(import.meta.url)('@opentelemetry/api') as Api
  return loaded
}

/** The program's tracer; `undefined` as long as it has none. */
function tracerOf({ trace, ProxyTracerProvider }: Api): Tracer | undefined {
  if (known !== undefined) return known
  const provider = trace.getTracerProvider()
  known =
    provider instanceof ProxyTracerProvider
      ? provider.getDelegateTracer('sluice', VERSION)
      : provider.getTracer('sluice', VERSION)
  return known
}

const FORM =
  /^([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-[^ ]*)?(?: ([\x20-\x7e]{1,512}))?$/

interface Parts {
  readonly traceId: string
  readonly spanId: string
  readonly flags: string
  readonly state: string | undefined
}

/** `undefined` for a text that is not in order, which is no reason to fail. */
function read(text: string | undefined): Parts | undefined {
  const parts = text === undefined ? null : FORM.exec(text)
  if (parts === null) return undefined
  const [, version, traceId, spanId, flags, more, state] = parts
  // Later versions may have more fields; this one has not.
  if (version === 'ff' || (version === '00' && more !== undefined)) return undefined
  return { traceId: traceId!, spanId: spanId!, flags: flags!, state }
}

function write({ traceId, spanId, flags, state }: Parts): string {
  return `00-${traceId}-${spanId}-${flags}${state === undefined ? '' : ` ${state}`}`
}

/** The text that is kept with a job; `undefined` when there is nothing to connect to. */
function traceText(found: SpanContext | undefined): string | undefined {
  if (found === undefined) return undefined
  const flags = (found.traceFlags & 0xff).toString(16).padStart(2, '0')
  const parent = `00-${found.traceId}-${found.spanId}-${flags}`
  const state = found.traceState?.serialize() ?? ''
  const parts = (state === '' ? undefined : read(`${parent} ${state}`)) ?? read(parent)
  return parts === undefined ? undefined : write(parts)
}

function contextOf({ trace, ROOT_CONTEXT, createTraceState }: Api, text: string | undefined): Context {
  const parts = read(text)
  if (parts === undefined) return ROOT_CONTEXT
  const { traceId, spanId, flags, state } = parts
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
    ...(state !== undefined && { traceState: createTraceState(state) }),
  })
}

/** As they came with a request. */
export interface TraceHeaders {
  readonly traceparent?: string | string[] | undefined
  readonly tracestate?: string | string[] | undefined
}

/**
 * What a request's job is connected to: the span that is active here, else what the caller sent, also where nothing is
 * set up here. What is not in order is passed over.
 */
export function traceOfRequest({ traceparent, tracestate }: TraceHeaders): string | undefined {
  const { trace, context } = api() ?? {}
  const active = trace === undefined ? undefined : traceText(trace.getSpanContext(context!.active()))
  if (active !== undefined || typeof traceparent !== 'string') return active
  const both = typeof tracestate === 'string' ? read(`${traceparent} ${tracestate}`) : undefined
  const sent = both ?? read(traceparent)
  return sent === undefined ? undefined : write(sent)
}

/** How a program started for a job learns of its trace: the variables that OpenTelemetry has names for. */
export function traceVariables(text: string | undefined): Readonly<Record<string, string>> {
  const parts = read(text)
  if (parts === undefined) return {}
  const { state } = parts
  return {
    TRACEPARENT: write({ ...parts, state: undefined }),
    ...(state !== undefined && { TRACESTATE: state }),
  }
}

/** Runs code with a job's trace as its active one, so that spans it makes belong there. */
export function withTrace<T>(text: string | undefined, work: () => T): T {
  const found = text === undefined ? undefined : api()
  return found === undefined ? work() : found.context.with(contextOf(found, text), work)
}

/**
 * Submits under a span of its own: `sluice.submit NAME`, a producer.
 *
 * @param work Gets what is to be kept with the jobs; `undefined` when there is nothing to connect to.
 */
export function traceSubmit<T>(name: string, work: (kept: string | undefined) => Promise<T>): Promise<T> {
  const found = api()
  const tracer = found === undefined ? undefined : tracerOf(found)
  // Submitting is hot: where nothing is set up not even a promise is added.
  return tracer === undefined ? work(undefined) : submitUnder(found!, tracer, name, work)
}

async function submitUnder<T>(
  { context, trace, SpanKind, SpanStatusCode }: Api,
  tracer: Tracer,
  name: string,
  work: (kept: string | undefined) => Promise<T>,
): Promise<T> {
  const attributes = { 'sluice.task': name }
  const span = tracer.startSpan(`sluice.submit ${name}`, { kind: SpanKind.PRODUCER, attributes })
  try {
    return await context.with(trace.setSpan(context.active(), span), () =>
      work(traceText(span.spanContext())),
    )
  } catch (error) {
    span.setStatus({ code: SpanStatusCode.ERROR, message: messageOf(error) })
    throw error
  } finally {
    span.end()
  }
}

/** The facts about an attempt that its span tells. */
export interface TracedAttempt {
  readonly id: string
  readonly task: string
  readonly lane: string
  readonly attempt: number
  readonly trace?: string
}

/** The span of one attempt: `sluice.attempt TASK`, a consumer, below what its job was submitted under. */
export class AttemptSpan {
  readonly #api: Api
  readonly #span: Span
  readonly #context: Context

  constructor(found: Api, span: Span, around: Context) {
    this.#api = found
    this.#span = span
    this.#context = found.trace.setSpan(around, span)
  }

  /** `undefined` where nothing is set up. */
  static start(attempt: TracedAttempt): AttemptSpan | undefined {
    const found = api()
    const tracer = found === undefined ? undefined : tracerOf(found)
    if (found === undefined || tracer === undefined) return undefined
    const around = contextOf(found, attempt.trace)
    const attributes = {
      'sluice.job.id': attempt.id,
      'sluice.task': attempt.task,
      'sluice.lane': attempt.lane,
      'sluice.attempt': attempt.attempt,
    }
    const kind = found.SpanKind.CONSUMER
    const span = tracer.startSpan(`sluice.attempt ${attempt.task}`, { kind, attributes }, around)
    return new AttemptSpan(found, span, around)
  }

  /** What processes and programs of this attempt are connected to. */
  get trace(): string | undefined {
    return traceText(this.#span.spanContext())
  }

  run<T>(work: () => T): T {
    return this.#api.context.with(this.#context, work)
  }

  /** @param error Given when it did not go well. */
  end(outcome: string, error: string | undefined): void {
    this.#span.setAttribute('sluice.outcome', outcome)
    if (error !== undefined) this.#span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: error })
    this.#span.end()
  }
}
