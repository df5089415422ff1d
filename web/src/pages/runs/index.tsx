export default function Runs() {
  return <h1 tabIndex={-1}>Runs</h1>;
}
