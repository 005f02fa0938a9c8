// A small tracer by the interfaces of @opentelemetry/api, for tests in this process and in others: it keeps the spans
// that have ended, and gives each ended one to whoever wants to know.
import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import { context, ROOT_CONTEXT, trace } from '@opentelemetry/api'

/** @param onEnd Gets the facts of every span that has ended, as plain data. */
export function setUpTracing(onEnd = () => {}) {
  const ended = []
  context.setGlobalContextManager(new StorageContextManager())
  trace.setGlobalTracerProvider({
    getTracer: (library) => ({
      startSpan: (name, options = {}, around = context.active()) =>
        new RecordedSpan(library, name, options, trace.getSpanContext(around), (facts) => {
          ended.push(facts)
          onEnd(facts)
        }),
      startActiveSpan(name, ...rest) {
        const work = rest.at(-1)
        const span = this.startSpan(name, rest.length > 1 ? rest[0] : {})
        return context.with(trace.setSpan(context.active(), span), () => work(span))
      },
    }),
  })
  return { ended }
}

/** Takes the set-up away again. */
export function forgetTracing() {
  trace.disable()
  context.disable()
}

class RecordedSpan {
  #facts
  #context
  #onEnd

  constructor(library, name, { kind = 0, attributes = {} }, parent, onEnd) {
    this.#context = {
      traceId: parent?.traceId ?? randomBytes(16).toString('hex'),
      spanId: randomBytes(8).toString('hex'),
      traceFlags: parent?.traceFlags ?? 1,
      ...(parent?.traceState && { traceState: parent.traceState }),
    }
    this.#facts = {
      library,
      name,
      kind,
      attributes: { ...attributes },
      status: { code: 0 },
      parentSpanId: parent?.spanId,
      ...{ traceId: this.#context.traceId, spanId: this.#context.spanId },
    }
    this.#onEnd = onEnd
  }

  spanContext() {
    return this.#context
  }

  setAttribute(name, value) {
    this.#facts.attributes[name] = value
    return this
  }

  setStatus(status) {
    this.#facts.status = status
    return this
  }

  isRecording() {
    return true
  }

  end() {
    this.#onEnd(this.#facts)
  }
}

class StorageContextManager {
  #storage = new AsyncLocalStorage()

  active() {
    return this.#storage.getStore() ?? ROOT_CONTEXT
  }

  with(around, work, self, ...args) {
    return this.#storage.run(around, () => work.apply(self, args))
  }

  bind(around, target) {
    return typeof target === 'function' ? (...args) => this.with(around, target, undefined, ...args) : target
  }

  enable() {
    return this
  }

  disable() {
    this.#storage.disable()
    return this
  }
}
