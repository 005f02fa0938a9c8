import { useQuery } from '@tanstack/react-query'
import { client } from '../../connection.ts'
import { Empty, Loading } from '../../parts/notes.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Moment } from '../../parts/time.tsx'
import { deviceName } from './device-name.ts'
import { laneSpans } from './lane-spans.ts'

const MINUTES = 30
const EVERY_MS = 10_000

type History = Awaited<ReturnType<typeof client.deviceHistory>>

/** Which models lay on which device, as bars over the last half hour. */
export function DeviceTimeline() {
  const { data, error } = useQuery({
    queryKey: ['budgets', 'history', MINUTES],
    // Bars are drawn from spans: points are not asked for.
    queryFn: () => client.deviceHistory({ minutes: MINUTES, points: 0 }),
    refetchInterval: EVERY_MS,
  })
  return (
    <Panel title="Loaded models over time" aside={`last ${MINUTES} minutes, sampled every 10 s`}>
      <Problem error={error} />
      {data === undefined ? <Loading lines={3} /> : <Bars history={data} />}
    </Panel>
  )
}

function Bars({ history }: { history: History }) {
  const devices = history.devices.filter(({ spans }) => spans.length > 0)
  const until = Math.max(...devices.flatMap(({ spans }) => spans.map((span) => span.until.getTime())))
  const from = until - MINUTES * 60_000
  if (devices.length === 0) return <Empty title="No models loaded in this period" />
  return (
    <div className="history">
      {devices.map((device) => (
        <section
          key={`${device.budget} ${device.key}`}
          aria-label={`Models on ${deviceName(device, devices)}`}
        >
          <h3>
            {deviceName(device, devices)} <span className="soft">{device.host}</span>
          </h3>
          <ul className="history-lanes">
            {laneSpans(device.spans).map(({ model, spans: own }) => (
              <li key={model}>
                <span className="history-model" title={model}>
                  {model}
                </span>
                <span className="history-track">
                  {own.map((span) => (
                    <span
                      key={`${span.worker} ${span.state} ${span.since.getTime()}`}
                      className="history-span"
                      data-state={span.state}
                      title={`${span.state} on ${span.worker}, up to ${span.jobs} jobs at once`}
                      style={place(span, from, until)}
                    >
                      <span className="hidden-visually">
                        {span.state} from {span.since.toLocaleTimeString()} to{' '}
                        {span.until.toLocaleTimeString()}
                      </span>
                      {span.jobs > 0 && <span aria-hidden="true">{span.jobs}</span>}
                    </span>
                  ))}
                </span>
              </li>
            ))}
          </ul>
        </section>
      ))}
      <p className="history-axis soft">
        <Moment at={new Date(from)} />
        <span>number: most jobs at once</span>
        <Moment at={new Date(until)} />
      </p>
    </div>
  )
}

/** What was seen once has no length: a bar one can see takes its place. */
function place(span: { since: Date; until: Date }, from: number, until: number) {
  const left = Math.max(0, ((span.since.getTime() - from) / (until - from)) * 100)
  const right = Math.min(100, ((span.until.getTime() - from) / (until - from)) * 100)
  return { left: `${Math.min(left, 99)}%`, width: `${Math.max(right - left, 0.6)}%` }
}
