import type { Rules } from '../../plan-input.ts'
import type { SimPolicy } from '../simulate.ts'
import { fifoPolicy, llamaSwapPolicy, lruPolicy, naiveGuardPolicy, ollamaPolicy } from './baselines.ts'
import { sluicePolicy } from './sluice.ts'

const NO_GUARD_MS = Number.MAX_SAFE_INTEGER

/** Every policy by its name, with a line for people. */
export const POLICIES = {
  sluice: { about: 'the real policy', make: (rules: Rules): SimPolicy => sluicePolicy(rules) },
  fifo: { about: 'strictly in the order of arrival', make: () => fifoPolicy() },
  ollama: { about: 'one queue; what is loaded passes it', make: () => ollamaPolicy() },
  lru: { about: 'oldest job first, least recently used goes', make: () => lruPolicy() },
  'llama-swap': { about: 'collates by model, no guard', make: () => llamaSwapPolicy() },
  'no-guard': {
    about: 'the real policy without a maximum wait',
    make: (rules: Rules) => sluicePolicy({ ...rules, maxWaitMs: NO_GUARD_MS }),
  },
  'naive-guard': {
    about: 'a maximum wait without a quantum',
    make: (rules: Rules) => naiveGuardPolicy(rules.maxWaitMs),
  },
} as const satisfies Readonly<Record<string, { about: string; make: (rules: Rules) => SimPolicy }>>

export type PolicyName = keyof typeof POLICIES

export const POLICY_NAMES = Object.keys(POLICIES) as readonly PolicyName[]
