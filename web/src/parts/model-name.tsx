/** A model as people say it; its id is the tooltip. */
import { modelName } from "../models";
import { visible } from "./text";

interface ModelNameProps {
  id: string | null | undefined;
  /** Instead of the usual name, where several models stand side by side: see `modelNames`. */
  name?: string;
  /** What the tooltip says instead of the id. */
  title?: string;
  className?: string;
}

export function ModelName({ id, name, title, className }: ModelNameProps) {
  if (!id) return <span className="faint">–</span>;
  return (
    <bdi dir="auto" className={className} title={title ?? visible(id)}>
      {visible(name ?? modelName(id))}
    </bdi>
  );
}
