import { isName } from '../../model/limits.ts'
import { suggest } from '../../model/suggest.ts'
import { parseTemplate, templateReads } from '../expression/template.ts'
import { type Body, type Step, stepsByName } from '../graph.ts'
import { checkRead, type Level } from './check-reads.ts'
import type { DefinitionPart } from './definition-part.ts'
import { findCycles, Precedence } from './precedence.ts'
import { textsOf } from './read-template.ts'

/**
 * Checks what can only be seen across steps: what they need, and what their templates read.
 *
 * @param part The definition of the workflow or group.
 * @param outer For a group, the bodies around it, outermost first.
 * @param hasItem Whether the body is below a fan-out.
 */
export function checkBody(
  body: Body,
  part: DefinitionPart,
  outer: readonly Level[] = [],
  hasItem = false,
): void {
  const at = part.below('steps')
  // Also those that could not be read: they have been reported, and who needs them is not to blame.
  const written = (at.keys() ?? []).filter(isName)
  const positions = new Map(written.map((name, position) => [name, position]))
  const steps = stepsByName(body)
  for (const step of body.steps) checkNeeds(step, at.below(step.name).below('needs'), positions, outer)

  const needs = written.map((name) =>
    (steps.get(name)?.needs ?? []).flatMap((need) => (need === name ? [] : (positions.get(need) ?? []))),
  )
  reportCycles(needs, written, at)
  const precedence = new Precedence(needs)
  const fanOuts = new Set(written.filter((name) => isFanOut(at.below(name))))
  const level = (reader: string | undefined): Level => ({ positions, fanOuts, precedence, reader })
  for (const step of body.steps) {
    checkStep(step, at.below(step.name), [...outer, level(step.name)], hasItem)
  }
  checkTemplate(part.below('output').as(body.output), [...outer, level(undefined)], hasItem)
}

function checkNeeds(
  step: Step,
  at: DefinitionPart,
  positions: ReadonlyMap<string, number>,
  outer: readonly Level[],
): void {
  const places = Array.isArray(at.value) ? at.value : []
  for (const need of step.needs) {
    const there = at.below(places.indexOf(need))
    const around = outer.findLast((level) => level.positions.has(need))
    if (need === step.name) there.report(`${need} needs itself; remove it`)
    else if (positions.has(need)) continue
    else if (around?.reader === need) {
      there.report(`${need} is the group this step is in; remove it`)
    } else if (around !== undefined) {
      there.report(`${need} is a step outside the group; write it in the needs of ${around.reader}`)
    } else {
      const others = [...positions.keys()].filter((name) => name !== step.name)
      const near = suggest(need, others)
      const some = others.length === 0 ? 'there are no others' : `there are ${others.slice(0, 10).join(', ')}`
      there.report(`no step is called ${need}; ${near === undefined ? some : `did you mean ${near}?`}`)
    }
  }
}

function reportCycles(
  needs: readonly (readonly number[])[],
  names: readonly string[],
  at: DefinitionPart,
): void {
  for (const cycle of findCycles(needs)) {
    const [first, ...rest] = cycle.map((position) => names[position]!)
    const circle = [first!, ...rest, first!].join(' -> ')
    at.below(first!)
      .below('needs')
      .report(`the steps need each other in a circle: ${circle}; remove one of these needs`)
  }
}

function checkStep(step: Step, part: DefinitionPart, levels: readonly Level[], hasItem: boolean): void {
  const hasOwnItem = isFanOut(part)
  const beforeItems = hasOwnItem && !hasItem ? 'before-items' : hasItem
  checkTemplate(part.below('when').as(step.when), levels, beforeItems)
  const list = part.has('with_items') ? part.below('with_items') : part.below('batch').below('items')
  checkTemplate(list.as(step.each?.items), levels, beforeItems)
  checkTemplate(part.below('with').as(step.with), levels, hasItem || hasOwnItem)
  if (step.run.kind === 'group') checkBody(step.run.body, part, levels, hasItem || hasOwnItem)
}

function isFanOut(part: DefinitionPart): boolean {
  return part.has('with_items') || part.has('batch')
}

/** @param part A template that was read; one with problems was left out and is not looked at again. */
function checkTemplate(
  part: DefinitionPart,
  levels: readonly Level[],
  hasItem: boolean | 'before-items',
): void {
  for (const leaf of textsOf(part)) {
    const seen = new Set<string>()
    for (const read of templateReads(parseTemplate(String(leaf.value), ''))) {
      const message = checkRead(read, levels, hasItem)
      if (message === undefined || seen.has(message)) continue
      seen.add(message)
      leaf.report(message)
    }
  }
}
