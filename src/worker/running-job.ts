import { AsyncLocalStorage } from 'node:async_hooks'

/** The job whose task code is running in the present asynchronous context, if any. */
export const runningJob = new AsyncLocalStorage<string>()
