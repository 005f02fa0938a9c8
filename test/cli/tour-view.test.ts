import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Output } from '../../src/cli/output/output.ts'
import { Screen } from '../../src/cli/output/screen.ts'
import { widthOf } from '../../src/cli/output/text-width.ts'
import { Picture } from '../../src/cli/tour/picture.ts'
import { frame, type LaneView, type TourView } from '../../src/cli/tour/view.ts'

const plain = (_: unknown, text: string) => text

function viewOf(lanes: LaneView[], events: string[] = []): TourView {
  return { elapsedMs: 4200, perSecond: 21, done: 3, total: 10, lanes, picture: new Picture(), events }
}

const lane = (slots: number | null, ...progress: (number | undefined)[]): LaneView => ({
  name: 'interactive',
  slots,
  seats: progress.map((each) => (each === undefined ? undefined : { job: '1', progress: each })),
  waiting: 12,
  oldestMs: 3400,
  done: 5,
})

describe('a frame', () => {
  test('shows a box per slot, filled as far as its job is', () => {
    const lines = frame(viewOf([lane(4, 1, 0.5, undefined, 0)]), { columns: 80, rows: 24 }, plain)
    expect(lines.find((line) => line.startsWith('interactive'))).toMatch(
      /^interactive {2}\[████████]\[████░░░░]\[ {8}]\[░░░░░░░░] +12 +3\.4s +5$/,
    )
  })

  test('counts instead of drawing where there are more slots than room', () => {
    const lines = frame(viewOf([lane(50, 1, 0.5)]), { columns: 60, rows: 24 }, plain)
    expect(lines.find((line) => line.startsWith('interactive'))).toMatch(/^interactive +2 of 50 +12 /)
  })

  test('never has a line wider than the terminal, nor as many lines as it has', () => {
    const lanes = fc.array(
      fc.record({
        name: fc.string({ maxLength: 30 }).map((text) => text.replace(/[^ -~]/g, 'x')),
        slots: fc.option(fc.nat(200)),
        seats: fc.array(
          fc.option(
            fc.record({ job: fc.constant('1'), progress: fc.double({ min: 0, max: 1, noNaN: true }) }),
            { nil: undefined },
          ),
          { maxLength: 40 },
        ),
        waiting: fc.nat(),
        oldestMs: fc.option(fc.nat(), { nil: undefined }),
        done: fc.nat(),
      }),
      { minLength: 1, maxLength: 5 },
    )
    const events = fc.array(
      fc.constantFrom('short', 'wide 漢字 text 🎉 and more of it, as long as any event may be in the tour'),
    )
    fc.assert(
      fc.property(
        lanes,
        events,
        fc.integer({ min: 1, max: 200 }),
        fc.integer({ min: 1, max: 60 }),
        (many, told, columns, rows) => {
          const lines = frame(viewOf(many, told), { columns, rows }, plain)
          expect(lines.length).toBeLessThanOrEqual(rows - 1)
          for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(columns)
        },
      ),
    )
  })
})

describe('the screen', () => {
  class Recorder implements Output {
    text = ''
    readonly isTerminal = true
    readonly hasColour = false
    readonly columns = 80
    readonly rows = 24
    resized: (() => void) | undefined

    write(text: string): void {
      this.text += text
    }
    line(text = ''): void {
      this.write(`${text}\n`)
    }
    onResize(listener: () => void): () => void {
      this.resized = listener
      return () => {
        this.resized = undefined
      }
    }
  }

  const taken = (output: Recorder) => {
    const { text } = output
    output.text = ''
    return text
  }

  test('overwrites the last frame in place, without clearing first', () => {
    const output = new Recorder()
    const screen = new Screen(output)
    screen.draw(['a', 'b'])
    expect(taken(output)).toBe('\u001b[?25l\u001b[?2026h\ra\u001b[K\nb\u001b[K\n\u001b[J\u001b[?2026l')
    screen.draw(['c'])
    expect(taken(output)).toBe('\u001b[?2026h\u001b[2A\rc\u001b[K\n\u001b[J\u001b[?2026l')
  })

  test('redraws after a change of size, and restores the cursor once', () => {
    const output = new Recorder()
    const screen = new Screen(output)
    screen.draw(['a'])
    output.resized!()
    taken(output)
    screen.draw(['a'])
    expect(taken(output)).toContain('\u001b[2J\u001b[H')
    screen.close()
    screen.close()
    expect(taken(output)).toBe('\u001b[?25h')
    expect(output.resized).toBeUndefined()
  })
})
