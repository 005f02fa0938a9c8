import { ErrorGroupsBody } from '../api/errors.ts'
import { JobListBody } from '../api/job-list.ts'
import { TimelineBody } from '../api/jobs.ts'
import { DeviceHistoryBody, NowBody, SeriesBody } from '../api/live.ts'
import { RecoveryBody, type RecoveryQuery } from '../api/recovery.ts'
import { WaterfallBody } from '../api/waterfall.ts'
import { checkJobId } from '../model/job-id.ts'
import { type Dated, dated } from './dated.ts'
import { followStream, type StreamOptions } from './follow-stream.ts'
import type { Link, Query } from './link.ts'

export type Now = Dated<NowBody>
export type Series = Dated<SeriesBody>
export type DeviceHistory = Dated<DeviceHistoryBody>
export type Recovery = Dated<RecoveryBody>
export type Waterfall = Dated<WaterfallBody>
export type Timeline = Dated<TimelineBody>['entries']
export type ErrorGroups = Dated<ErrorGroupsBody>

/** An event of `live`: the state of the system, or the first page of a list. Always complete. */
export type LiveEvent =
  | { readonly event: 'now'; readonly data: Now }
  | { readonly event: 'jobs'; readonly data: Dated<JobListBody> }

/** Read models for views: the state of the system, now and in the past, and the outcome of jobs. */
export class ViewClient {
  /** @internal */
  protected readonly link: Link

  /** @internal */
  constructor(link: Link) {
    this.link = link
  }

  /** The whole system at one time: jobs by state, lanes, workers, devices, failures, and what needs attention. */
  async snapshot(): Promise<Now> {
    return dated(NowBody, await this.get<NowBody>('/admin/snapshot'))
  }

  /** The state of the system in the last minutes, oldest first: one point every 10 s while something ran or waited. */
  async series(options: { readonly minutes?: number } = {}): Promise<Series> {
    return dated(SeriesBody, await this.get<SeriesBody>('/admin/series', options))
  }

  /**
   * What was on each device in the last minutes, sampled every 10 s: models, jobs, memory; with at most so many points
   * per device.
   */
  async deviceHistory(
    options: { readonly minutes?: number; readonly points?: number } = {},
  ): Promise<DeviceHistory> {
    return dated(DeviceHistoryBody, await this.get<DeviceHistoryBody>('/admin/devices/history', options))
  }

  /** What the engine repaired, newest first. Continue with `next` as `before`. */
  async recovery(options: RecoveryQuery = {}): Promise<Recovery> {
    return dated(RecoveryBody, await this.get<RecoveryBody>('/admin/recovery', options))
  }

  /** A job's timeline in order: states, attempts, workers. */
  async timeline(id: string): Promise<Timeline> {
    return dated(TimelineBody, await this.get<TimelineBody>(`/jobs/${checkJobId(id)}/timeline`)).entries
  }

  /** A tree as bars over time, with its critical path. */
  async waterfall(id: string): Promise<Waterfall> {
    return dated(WaterfallBody, await this.get<WaterfallBody>(`/jobs/${checkJobId(id)}/waterfall`))
  }

  /**
   * Groups failures by their error, the most frequent first. The `fingerprint` of a group is a filter of
   * `listJobsPage` and `retryMany`.
   */
  async errorGroups(
    options: { readonly since?: Date; readonly task?: string; readonly limit?: number } = {},
  ): Promise<ErrorGroups> {
    const query = { ...options, since: options.since?.toISOString() }
    return dated(ErrorGroupsBody, await this.get<ErrorGroupsBody>('/errors', query))
  }

  /** @internal */
  protected get<T>(path: string, query: object = {}): Promise<T> {
    return this.link.call<T>('GET', path, { query: query as Query })
  }

  /** @internal */
  protected async *followLive(query: Query, options: StreamOptions): AsyncGenerator<LiveEvent> {
    for await (const { event, data } of followStream(this.link, '/live', query, options)) {
      const told: unknown = JSON.parse(data)
      if (event === 'now') yield { event, data: dated(NowBody, told as NowBody) }
      else if (event === 'jobs') yield { event, data: dated(JobListBody, told as JobListBody) }
    }
  }
}
