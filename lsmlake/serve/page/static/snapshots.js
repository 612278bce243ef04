// Snapshots by their place among those that there are, given as ranges of numbers [first, last], ascending.

/** How many there are. */
export function totalOf(ranges) {
  return ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
}

/** The number of the snapshot at a place, from 0 on; null if there are none. */
export function idAt(ranges, place) {
  for (const [first, last] of ranges) {
    if (place <= last - first) return first + place;
    place -= last - first + 1;
  }
  return ranges.at(-1)?.[1] ?? null;
}

/** The place of a snapshot; of one that has expired, that of the next one. */
export function placeOf(ranges, id) {
  let before = 0;
  for (const [first, last] of ranges) {
    if (id <= last) return before + Math.max(0, id - first);
    before += last - first + 1;
  }
  return before - 1;
}
