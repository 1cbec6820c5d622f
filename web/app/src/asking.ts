// A question to a job's ranks at the press of a button, with a line about how it goes.
import { useState } from "preact/hooks";

export interface Asking {
  // That they are asked, that they have answered, or why not; empty before the first question.
  readonly said: string;
  readonly ask: () => void;
}

// `question` asks, and takes the answers into the view. It throws a refusal.
export function useAsking(question: () => Promise<void>): Asking {
  const [said, setSaid] = useState("");
  const ask = async (): Promise<void> => {
    setSaid("The ranks are asked; they have 4 s.");
    try {
      await question();
      setSaid("The ranks have answered.");
    } catch (refusal) {
      setSaid((refusal as Error).message);
    }
  };
  return { said, ask: () => void ask() };
}
