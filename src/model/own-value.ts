/**
 * Returns an object's own property. `object[name]` would also find inherited members such as `constructor` and
 * `toString`, which are valid names of lanes, tasks, budgets and models.
 */
export function ownValue<T>(object: Readonly<Record<string, T>> | undefined, name: string): T | undefined {
  return object !== undefined && Object.hasOwn(object, name) ? object[name] : undefined
}
