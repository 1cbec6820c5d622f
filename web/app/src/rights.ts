// The rights of the token by which the page is signed in: it offers nothing that the coordinator would refuse.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { askJson, type Rights } from "./api";
import { useLoad } from "./load";

// A token keeps its role.
const AGAIN_MS = 3_600_000;
const AFTER_REFUSAL_MS = 5000;

const Context = createContext<Rights | undefined>(undefined);

export const RightsProvider = Context.Provider;

export function useLoadedRights(): Rights | undefined {
  return useLoad<Rights>("rights", () => askJson("/api/v1/rights"), () => false, (value) => (value ? AGAIN_MS : AFTER_REFUSAL_MS)).value;
}

// undefined: not known yet.
export const useRights = (): Rights | undefined => useContext(Context);
