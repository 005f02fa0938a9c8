/** Spans by model, in the order in which the models came. */
export function laneSpans<Span extends { readonly model: string }>(
  spans: readonly Span[],
): { readonly model: string; readonly spans: readonly Span[] }[] {
  const lanes = new Map<string, Span[]>()
  for (const span of spans) {
    const lane = lanes.get(span.model)
    if (lane === undefined) lanes.set(span.model, [span])
    else lane.push(span)
  }
  return [...lanes].map(([model, own]) => ({ model, spans: own }))
}
