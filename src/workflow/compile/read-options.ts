import { MAX_STORED_MS } from '../../model/limits.ts'
import type { RetryPolicy } from '../../model/retry.ts'
import { choice, count, describe, duration, flag, type Reader } from '../../model/setting-value.ts'
import { RETRY_FIELDS, storedDeadline, TASK_FIELDS } from '../../model/task-fields.ts'
import { ALL, type Each, type Step, type Strategy } from '../graph.ts'
import type { DefinitionPart } from './definition-part.ts'
import { readItems } from './read-template.ts'

const ON = choice('success', 'failure', 'always')
const POSITIVE = count({ min: 1 })

/** Which endings lead to the step. */
export function readOn(part: DefinitionPart): Step['on'] {
  const on = part.below('on').read(ON) ?? 'success'
  const needs = part.below('needs').value
  if (on === 'failure' && (needs === undefined || (Array.isArray(needs) && needs.length === 0))) {
    part.below('on').report('nothing that could fail leads here; add needs')
  }
  return on
}

/** `with_items` or `batch`, and the window. */
export function readEach(part: DefinitionPart): Each | undefined {
  const window = part.below('concurrency').read(POSITIVE)
  const bound = window === undefined ? {} : { window }
  if (part.has('with_items')) {
    const items = readItems(part.below('with_items'))
    return items === undefined ? undefined : { items, ...bound }
  }
  const batch = part.below('batch')
  if (batch.value === undefined || batch.knownKeys(['items', 'size']) === undefined) return undefined
  for (const key of ['items', 'size']) {
    if (!batch.has(key)) batch.report(`has no ${key}; write batch: { items: "\${{ ... }}", size: 1000 }`)
  }
  checkBatchInput(part.below('with'))
  const items = readItems(batch.below('items'))
  const size = batch.below('size').read(POSITIVE)
  return items === undefined || size === undefined ? undefined : { items, size, ...bound }
}

/** A batch adds `items` and `index` to the input of each child. */
function checkBatchInput(at: DefinitionPart): void {
  const { value } = at
  if (value === undefined || typeof value === 'string') return
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    at.report(`found ${describe(value)}; a batch adds items and index to it: write a map`)
    return
  }
  for (const key of ['items', 'index']) {
    if (at.has(key))
      at.below(key).report(`a batch gives each child ${key} of its own; use another name`, 'key')
  }
}

/** A number such as 95 or 99.9. Three decimals can be counted exactly. */
const PERCENT: Reader<number, number> = {
  read: (value) =>
    typeof value === 'number' && value > 0 && value <= 100 && Number(value.toFixed(3)) === value
      ? value
      : undefined,
  readText: () => undefined,
  expected: 'a number above 0, up to 100, with at most three decimals',
  bound: '> 0, <= 100',
  format: String,
  placeholder: 'percent',
  written: { type: 'number' },
  words: [],
  stored: { type: 'number' },
}

const RULE = choice('all', 'any', 'ignore')
const OF = choice('children', 'leaves')
const WRITE_STRATEGY = 'write all, any, ignore, { atLeast: 3 } or { percent: 95 }'

/** How a group or fan-out is judged: a word, or a map that may also say `of` and `early`. */
export function readStrategy(at: DefinitionPart): Strategy | undefined {
  const { value } = at
  if (value === undefined) return undefined
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const rule = RULE.read(value)
    return rule === undefined ? at.report(`found ${describe(value)}; ${WRITE_STRATEGY}`) : { ...ALL, rule }
  }
  if (at.knownKeys(['rule', 'atLeast', 'percent', 'of', 'early']) === undefined) return undefined
  const rules = ['rule', 'atLeast', 'percent'].filter((key) => at.has(key))
  if (rules.length > 1) return at.report(`has ${rules.join(' and ')}; keep one of them`)
  const chosen = readRule(at)
  const of = at.below('of').read(OF) ?? 'children'
  const early = at.below('early').read(flag) ?? false
  if (chosen?.rule === 'ignore' && early) {
    at.below('early').report(
      'with ignore the verdict is certain at once, and nothing would run; remove it',
      'key',
    )
  }
  return chosen && { ...chosen, of, early }
}

function readRule(at: DefinitionPart): Pick<Strategy, 'rule' | 'n'> | undefined {
  if (at.has('atLeast')) {
    const n = at.below('atLeast').read(POSITIVE)
    return n === undefined ? undefined : { rule: 'atLeast', n }
  }
  if (at.has('percent')) {
    const n = at.below('percent').read(PERCENT)
    return n === undefined ? undefined : { rule: 'percent', n }
  }
  if (!at.has('rule')) return { rule: 'all' }
  const rule = at.below('rule').read(RULE)
  return rule === undefined ? undefined : { rule }
}

/** What the step changes of its task's retries. */
export function readRetry(at: DefinitionPart): Partial<RetryPolicy> | undefined {
  if (at.value === undefined) return undefined
  if (at.knownKeys(Object.keys(RETRY_FIELDS)) === undefined) return undefined
  const attempts = at.below('attempts').read(RETRY_FIELDS.attempts)
  const backoff = at.below('backoff').read(RETRY_FIELDS.backoff)
  const delayMs = at.below('delay').read(RETRY_FIELDS.delay)
  const maxDelayMs = at.below('maxDelay').read(RETRY_FIELDS.maxDelay)
  if (delayMs !== undefined && maxDelayMs !== undefined && delayMs > maxDelayMs) {
    at.below('maxDelay').report('is less than delay; write at least that much')
  }
  return {
    ...(attempts === undefined ? {} : { attempts }),
    ...(backoff === undefined ? {} : { backoff }),
    ...(delayMs === undefined ? {} : { delayMs }),
    ...(maxDelayMs === undefined ? {} : { maxDelayMs }),
  }
}

const COMPOSITE_TIMEOUT = duration({ min: 1, max: MAX_STORED_MS })

/** A leaf's is kept by a timer of its worker, a composite's by the database. */
export function readTimeout(at: DefinitionPart, isLeaf: boolean): number | undefined {
  return at.read(isLeaf ? TASK_FIELDS.timeout : COMPOSITE_TIMEOUT)
}

export function readDeadline(at: DefinitionPart): number | undefined {
  return storedDeadline(at.read(TASK_FIELDS.deadline))
}
