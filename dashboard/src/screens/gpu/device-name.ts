interface Named {
  readonly key: string
  readonly name: string
  readonly host: string | null
}

/** A uuid of a GPU tells it apart with its first digits. */
const ENOUGH = 8

/** What a device is called. Of several that are called the same on one machine also how their keys begin. */
export function deviceName({ key, name, host }: Named, all: readonly Named[]): string {
  const same = all.filter((each) => each.name === name && each.host === host && each.key !== key)
  if (same.length === 0) return name
  const isClear = same.every((each) => each.key.slice(0, ENOUGH) !== key.slice(0, ENOUGH))
  return `${name} ${isClear ? key.slice(0, ENOUGH) : key}`
}
