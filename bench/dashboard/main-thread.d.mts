import type { Browser, Page } from 'playwright-core'

/** A task of a page's main thread: how long it took by the clock, how much of it the thread ran, and what it did. */
export interface MainThreadTask {
  readonly wallMs: number
  readonly cpuMs: number
  readonly parts: Readonly<Record<string, number>>
}

/** Traces what pages do until the function it returns is called, which answers their tasks of 16 ms and more by the pages' names. */
export function watchMainThreads(
  browser: Browser,
  pages: readonly { readonly name: string; readonly page: Page }[],
): Promise<() => Promise<ReadonlyMap<string, readonly MainThreadTask[]>>>

export function taskWords(task: MainThreadTask): string
