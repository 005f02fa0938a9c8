import type { Fields } from '../src/model/fields/field.ts'

export declare const PAGES: readonly string[]
export declare function withParts(page: string, registries: Readonly<Record<string, Fields>>): string
