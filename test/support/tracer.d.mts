import type { Attributes, SpanStatus } from '@opentelemetry/api'

export interface EndedSpan {
  readonly library: string
  readonly name: string
  readonly kind: number
  readonly attributes: Attributes
  readonly status: SpanStatus
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
}

export function setUpTracing(onEnd?: (span: EndedSpan) => void): { readonly ended: EndedSpan[] }
export function forgetTracing(): void
