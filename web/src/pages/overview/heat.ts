/** Activity by day and hour: how strong a cell is, and how keys move between cells. */
import type { ActiveDay } from "../../api/shapes";

export const LEVELS = 4;

/** The counts from which on a cell has level 1, 2, 3 and 4: parts of equal size of all hours with activity. */
export function thresholds(days: readonly ActiveDay[]): number[] {
  const counts = days.flatMap((day) => day.hours.filter((count) => count > 0)).toSorted((one, other) => one - other);
  return Array.from({ length: LEVELS }, (_, level) => counts[Math.floor((counts.length * level) / LEVELS)] ?? 1);
}

/** 0 for nothing, up to 4. */
export function levelOf(count: number, steps: readonly number[]): number {
  return count === 0 ? 0 : Math.max(1, steps.findLastIndex((step) => count >= step) + 1);
}

export interface Place {
  day: number;
  hour: number;
}

/** Where a key leads from a cell: days are columns, hours are rows. */
export function moved({ day, hour }: Place, key: string, days: number): Place | null {
  const moves: Record<string, Place> = {
    ArrowLeft: { day: day - 1, hour },
    ArrowRight: { day: day + 1, hour },
    ArrowUp: { day, hour: hour - 1 },
    ArrowDown: { day, hour: hour + 1 },
    Home: { day: 0, hour },
    End: { day: days - 1, hour },
    PageUp: { day, hour: 0 },
    PageDown: { day, hour: 23 },
  };
  const next = moves[key];
  if (!next) return null;
  return { day: Math.min(Math.max(next.day, 0), days - 1), hour: Math.min(Math.max(next.hour, 0), 23) };
}

export function hourText(hour: number): string {
  return `${String(hour).padStart(2, "0")}:00`;
}
