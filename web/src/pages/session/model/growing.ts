/** Typed arrays that get longer. */

type Numbers = Float64Array<ArrayBuffer> | Int32Array<ArrayBuffer> | Uint16Array<ArrayBuffer> | Uint8Array<ArrayBuffer>;

/** The same numbers with room for more. */
export function grown<A extends Numbers>(array: A, make: new (length: number) => A, room: number): A {
  const bigger = new make(room);
  bigger.set(array);
  return bigger;
}
