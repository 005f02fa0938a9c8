import type { Budget } from '../../../../src/client/index.ts'
import { amountWords } from '../../parts/amount.ts'
import { count } from '../../parts/count.ts'
import { To } from '../../parts/link.tsx'
import { Meter } from '../../parts/meter.tsx'
import { Note } from '../../parts/notes.tsx'
import { Ago, Since } from '../../parts/time.tsx'
import { deviceName } from './device-name.ts'
import { WHY_WORDS, withoutTime } from './why-words.ts'

type Device = Budget['devices'][number]
type Copy = Device['copies'][number]

/** How many of what waits are shown; the others are in the list below. */
const NEXT = 4

/** One device: how full it is, which models lie on it, and what comes next there. */
export function DeviceCard({ budget, device }: { budget: Budget; device: Device }) {
  const { bytes } = budget
  const name = device.name === '' ? budget.name : deviceName(device, budget.devices)
  const byJobs = Math.max(0, device.held - device.heldByModels)
  const words = (amount: number) => amountWords(amount, bytes)
  return (
    <article className="device" aria-label={`Device ${name}`}>
      <header className="device-head">
        <h3>{name}</h3>
        <span className="soft">{device.host}</span>
      </header>
      <Meter
        label={`${name} in ${bytes ? 'bytes' : 'units'}`}
        limit={device.capacity}
        parts={[
          { label: 'held by models', value: device.heldByModels, tone: 'running' },
          { label: 'held by jobs', value: byJobs, tone: 'held' },
        ]}
      />
      <p className="device-amounts">
        <span>
          {words(device.held)}
          <span className="soft">
            {' '}
            {device.capacity === null ? 'in use, no limit' : `of ${words(device.capacity)} in use`}
          </span>
        </span>
        {device.measuredUsed !== null && (
          <span className="soft">
            measured {words(device.measuredUsed)}
            {!device.fresh && ' (outdated)'}
          </span>
        )}
      </p>
      {device.lostAt !== null && (
        <Note kind="warn">
          Lost <Ago at={device.lostAt} />. The device gets no jobs.
        </Note>
      )}
      {device.outOfMemory > 0 && (
        <p className="soft">{count(device.outOfMemory, 'attempt')} ran out of memory</p>
      )}
      {device.key !== '' && (
        <>
          <h4>Loaded</h4>
          {device.copies.length === 0 ? (
            <p className="soft">No models</p>
          ) : (
            <ul className="copies">
              {device.copies.map((copy) => (
                <LoadedCopy key={`${copy.model} ${copy.worker}`} copy={copy} words={words} />
              ))}
            </ul>
          )}
        </>
      )}
      <h4>Next</h4>
      {device.next.length === 0 ? (
        <p className="soft">No waiting jobs</p>
      ) : (
        <ol className="next">
          {device.next.slice(0, NEXT).map((each) => (
            <li key={`${each.task} ${each.model}`} title={each.reason}>
              <strong>{each.model ?? each.task}</strong>{' '}
              <span className="next-why">{WHY_WORDS[each.why]}</span>
              <p className="soft">{withoutTime(each.reason)}</p>
            </li>
          ))}
        </ol>
      )}
    </article>
  )
}

const STATES: Readonly<Record<Copy['state'], string>> = {
  loading: '↻ Loading',
  loaded: '● Loaded',
  unloading: '↓ Unloading',
}

function LoadedCopy({ copy, words }: { copy: Copy; words: (amount: number) => string }) {
  return (
    <li>
      <span>
        <strong>{copy.model}</strong>
        {copy.pinned && <span className="soft"> pinned</span>}
      </span>
      <span className="number">{words(copy.amount)}</span>
      <span className="soft copy-state in-text">
        {STATES[copy.state]} for <Since at={copy.since} />, {copy.running.toLocaleString()} running,{' '}
        <To path="/workers" search={{ name: copy.worker }}>
          {copy.worker}
        </To>
        {copy.devices.length > 1 && `, over ${copy.devices.length} devices`}
      </span>
    </li>
  )
}
