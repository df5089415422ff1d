/** How this program is called in a terminal of its machine: where it is not on PATH, its name alone would not be found. */
import { useMe } from "./api/queries";

const NAME = "agenttrace";
/** A command in a sentence, and not the name in one: "where agenttrace is started". */
const COMMAND = /\bagenttrace (?!is\b)(?=[a-z])/g;

/** A sentence or a command with the name of the program, as it can be typed. */
export function typeable(advice: string, program: string): string {
  return program === NAME ? advice : advice.replace(COMMAND, () => `${program} `);
}

/** Makes advice of this page or the server typeable. */
export function useTypeable(): (advice: string) => string {
  const program = useMe().data?.program ?? NAME;
  return (advice) => typeable(advice, program);
}
