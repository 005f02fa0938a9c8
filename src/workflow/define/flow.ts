import type { Jsonified } from '../../model/jsonified.ts'
import type { BodyDraft } from './body-draft.ts'
import {
  FanOutHandle,
  type Given,
  type Items,
  type Nothing,
  type Ref,
  type Rendered,
  reference,
  StepHandle,
} from './reference.ts'
import { type Named, type Runnable, workflowNamed } from './runnable.ts'
import type { FanOutOptions, GroupFanOutOptions, GroupOptions, StepOptions } from './step-options.ts'

/** A task without input, or with nothing in it that has to be there, needs none. */
type StepArguments<Input> = undefined extends Input
  ? [input?: Given<Input> | undefined, options?: StepOptions]
  : Record<never, never> extends Input
    ? [input?: Given<Input> | undefined, options?: StepOptions]
    : [input: Given<Input>, options?: StepOptions]

type InputOfEach<Item, Input> = (item: Ref<Rendered<Item>>, index: Ref<number>) => Given<Input>

/** Children may be given the items themselves, where these are what they take. */
type EachArguments<Item, Input, Options> =
  Rendered<Item> extends Input
    ? [input?: InputOfEach<Item, Input> | undefined, options?: Options]
    : [input: InputOfEach<Item, Input>, options?: Options]

/** What a batch gives each child by itself. */
interface Chunk<Item> {
  readonly items: Rendered<Item>[]
  readonly index: number
}
type ChunkKey = keyof Chunk<unknown>
type InputBeside<Input> = Omit<Input, ChunkKey>

type BatchArguments<Item, Input, Options> =
  Record<never, never> extends InputBeside<Input>
    ? [input?: InputOfEach<readonly Item[], InputBeside<Input>> | undefined, options?: Options]
    : [input: InputOfEach<readonly Item[], InputBeside<Input>>, options?: Options]

/** Refuses what cannot take the chunks of a batch. */
type Takes<Input, Item> =
  Chunk<Item> extends Pick<Input, keyof Input & ChunkKey> ? unknown : { readonly takes: Chunk<Item> }

/** Only under `all` has every child a result, once the fan-out has completed. */
type ResultOfEach<Result, Options> = Options extends { readonly strategy: infer Strategy }
  ? Strategy extends 'all'
    ? Result
    : Result | null
  : Result

/** What a body gives: what its function returns, else the results of its steps by name. */
export type ResultOf<Output> = [Output] extends [Nothing] ? Record<string, unknown> : Rendered<Output>

/** Lists in a definition of a batch. */
export interface BatchOf<Item> {
  readonly items: Items<Item>
  /** How many items make a chunk. */
  readonly size: number
}

/**
 * The steps of a workflow or group, as they are written down.
 *
 * Each method adds a step and returns a handle, whose fields stand for what the step will have given. A step needs
 * the steps it reads, unless one of its `needs` comes after them anyway.
 */
export class Steps {
  readonly #draft: BodyDraft

  /** @internal */
  constructor(draft: BodyDraft) {
    this.#draft = draft
  }

  /** A task or a sub-workflow. */
  step<Input, Result>(
    name: string,
    run: Runnable<Input, Result>,
    ...[input, options = {}]: StepArguments<NoInfer<Input>>
  ): StepHandle<Result> {
    this.#draft.add(name, { run, input, options })
    return new StepHandle(this.#draft, name)
  }

  /** A task or sub-workflow for each item of a list. Without `input` the item itself is the input. */
  each<Item, Input, Result, Options extends FanOutOptions = FanOutOptions>(
    name: string,
    items: Items<Item>,
    run: Runnable<Input, Result>,
    ...[input, options]: EachArguments<Item, NoInfer<Input>, Options>
  ): FanOutHandle<ResultOfEach<Result, Options>> {
    this.#draft.add(name, { run, items, inputOfEach: input, options: options ?? {} })
    return new FanOutHandle(this.#draft, name)
  }

  /** A task or sub-workflow for each chunk of a list. Its input is what `input` gives, with `items` and `index` added. */
  batch<Item, Input, Result, Options extends FanOutOptions = FanOutOptions>(
    name: string,
    of: BatchOf<Item>,
    run: Runnable<Input, Result> & Takes<Input, Item>,
    ...[input, options]: BatchArguments<Item, NoInfer<Input>, Options>
  ): FanOutHandle<ResultOfEach<Result, Options>> {
    this.#draft.add(name, { run, batch: of, inputOfEach: input, options: options ?? {} })
    return new FanOutHandle(this.#draft, name)
  }

  /**
   * Steps that are judged together. They read what is around the group, and are read by nobody outside: what `body`
   * returns is the group's result.
   */
  group<Output = void>(
    name: string,
    body: (group: Steps) => Output,
    options: GroupOptions = {},
  ): StepHandle<ResultOf<Output>> {
    this.#draft.add(name, { body: (draft) => body(new Steps(draft)), options })
    return new StepHandle(this.#draft, name)
  }

  /** A group for each item of a list. */
  eachGroup<Item, Output = void, Options extends GroupFanOutOptions = GroupFanOutOptions>(
    name: string,
    items: Items<Item>,
    body: (group: Steps, item: Ref<Rendered<Item>>, index: Ref<number>) => Output,
    options?: Options,
  ): FanOutHandle<ResultOfEach<ResultOf<Output>, Options>> {
    this.#draft.add(name, {
      items,
      body: (draft, item, index) => body(new Steps(draft), item as Ref<Rendered<Item>>, index),
      options: options ?? {},
    })
    return new FanOutHandle(this.#draft, name)
  }

  /** A group for each chunk of a list. */
  batchGroup<Item, Output = void, Options extends GroupFanOutOptions = GroupFanOutOptions>(
    name: string,
    of: BatchOf<Item>,
    body: (group: Steps, chunk: Ref<Rendered<Item>[]>, index: Ref<number>) => Output,
    options?: Options,
  ): FanOutHandle<ResultOfEach<ResultOf<Output>, Options>> {
    this.#draft.add(name, {
      batch: of,
      body: (draft, item, index) => body(new Steps(draft), item as Ref<Rendered<Item>[]>, index),
      options: options ?? {},
    })
    return new FanOutHandle(this.#draft, name)
  }
}

/** A workflow as it is written down. */
export class Flow<Input> extends Steps {
  /** What a run is submitted with. */
  readonly input: Ref<Jsonified<Input>>
  /** The workflow itself, for a step that runs it again. */
  readonly self: Named<Input, unknown>

  /** @internal */
  constructor(draft: BodyDraft) {
    super(draft)
    this.input = reference('input', { kind: 'input', workflow: draft.workflow })
    this.self = workflowNamed(draft.workflow.name)
  }
}
