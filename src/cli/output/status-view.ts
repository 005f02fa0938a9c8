import type { Now } from '../../engine/views/now.ts'
import { sentenceOf } from '../../model/attention.ts'
import { LANE_FIELDS } from '../../model/fields/lane.ts'
import { count, roughly } from './in-words.ts'
import { laneState } from './lane-state.ts'
import type { Output } from './output.ts'
import { type Colour, painter } from './style.ts'
import { type Column, writeFacts, writeTable } from './table.ts'
import { cut, printable } from './text-width.ts'

type LaneNow = Now['lanes'][number]

const STATES = ['running', 'queued', 'retrying', 'scheduled', 'awaiting_approval'] as const

/** The system at one time: jobs, workers, the lanes that have something to do, and what needs attention. */
export function writeStatus(out: Output, now: Now): void {
  const { admission, recoveredLastHour: takenOver } = now
  writeFacts(out, [
    ['jobs', jobsInWords(now.states, now.more)],
    ['steps', Object.values(now.steps).every((each) => each === 0) ? undefined : jobsInWords(now.steps, [])],
    ['failed', `${now.failedPerMinute} in the last minute, ${now.failedLastHour} in the last hour`],
    [
      'taken over',
      takenOver === 0 ? undefined : `${count(takenOver, 'job')} of lost workers in the last hour`,
    ],
    ['workers', workersInWords(now.workers)],
    ['devices', devicesInWords(now.devices)],
    [
      'admission',
      admission.maxActive === null ? undefined : `${admission.active} of ${admission.maxActive} active jobs`,
    ],
  ])
  out.line()
  const busy = now.lanes.filter(
    ({ running, assigned, depth, enabled }) => running + assigned + depth > 0 || !enabled,
  )
  if (busy.length > 0) writeTable(out, LANE_COLUMNS, busy)
  const idle = now.lanes.length - busy.length
  if (idle > 0) out.line(`${busy.length === 0 ? '' : 'and '}${count(idle, 'idle lane')}`)
  out.line()
  if (now.findings.length === 0) out.line(painter(out)('green', 'Nothing needs attention.'))
  for (const finding of now.findings) {
    const text = printable(`${sentenceOf(finding)}. ${finding.advice}`)
    const room = (out.columns ?? Number.POSITIVE_INFINITY) - finding.severity.length - 2
    out.line(`${painter(out)(SEVERITY_COLOURS[finding.severity], `${finding.severity}:`)} ${cut(text, room)}`)
  }
}

const SEVERITY_COLOURS: Readonly<Record<Now['findings'][number]['severity'], Colour>> = {
  problem: 'red',
  warning: 'yellow',
  note: 'dim',
}

function jobsInWords(states: Now['states'], more: readonly string[]): string {
  const parts = STATES.filter((state) => states[state] > 0).map(
    (state) => `${states[state]}${more.includes(state) ? ' or more' : ''} ${state.replace('_', ' ')}`,
  )
  return parts.join(', ') || 'none waiting or running'
}

function workersInWords({ live, running, capacity, draining, stopping, silent }: Now['workers']): string {
  if (live === 0) return 'none; start one with: sluice worker'
  const parts = [
    `${live} live, ${count(running, 'job')} on ${capacity === null ? 'any number of' : capacity} slots`,
    ...(draining > 0 ? [`${draining} draining`] : []),
    ...(stopping > 0 ? [`${stopping} stopping`] : []),
    ...(silent > 0 ? [`${silent} silent`] : []),
  ]
  return parts.join(', ')
}

function devicesInWords(devices: Now['devices']): string | undefined {
  const real = devices.filter(({ key }) => key !== '')
  if (real.length === 0) return undefined
  const lost = real.filter(({ lostAt }) => lostAt !== null).length
  const jobs = real.reduce((sum, { running }) => sum + running, 0)
  return `${real.length}${lost > 0 ? `, ${lost} lost` : ''}, ${count(jobs, 'job')}`
}

const LANE_COLUMNS: readonly Column<LaneNow>[] = [
  { title: 'LANE', value: ({ name }) => name },
  { title: 'STATE', value: laneState, colour: (lane) => (laneState(lane) === 'open' ? 'green' : 'yellow') },
  { title: 'RUNNING', value: ({ running }) => String(running), align: 'right' },
  { title: 'SLOTS', value: ({ slots }) => LANE_FIELDS.slots.format(slots), align: 'right' },
  {
    title: 'ASSIGNED',
    value: ({ assigned }) => (assigned === 0 ? '' : String(assigned)),
    align: 'right',
    optional: true,
  },
  { title: 'WAITING', value: ({ depth }) => String(depth), align: 'right' },
  {
    title: 'OLDEST',
    value: ({ oldestAt, waitedMs }) => (oldestAt === null ? '' : roughly(waitedMs)),
    align: 'right',
    optional: true,
  },
  { title: 'BLOCKED BY', value: ({ reason }) => reason ?? '', shrinks: true, optional: true },
]
