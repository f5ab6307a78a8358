package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"io"
	"strings"
)

// WriteDOT writes the graph in the language of Graphviz ("dot -Tsvg" draws it): a box for each node
// with its op, an ellipse for each leaf, and edges from operands to results, labelled with the
// operand's position if there are several. A dashed edge leads from a tensor to its view if the
// view has another operand. Parameters, inputs, outputs and the loss have fill colours. The text
// depends only on the graph. C: ggml_graph_dump_dot.
func (g *Graph) WriteDOT(w io.Writer) error {
	g = made(g)
	if w == nil {
		return g.errorf(nil, "the writer is nil")
	}
	nodes, leaves := g.contents()
	if len(nodes)+len(leaves) == 0 {
		return g.unreadable()
	}
	d := dotWriter{ids: map[*C.struct_ggml_tensor]string{}}
	d.line("digraph ggml {")
	d.line("\trankdir=TB; node [fontname=monospace, style=filled, fillcolor=white];")
	for i, t := range leaves {
		d.node(fmt.Sprintf("leaf%d", i), t, "ellipse", "")
	}
	for i, t := range nodes {
		d.node(fmt.Sprintf("node%d", i), t, "box", " = "+t.Op())
	}
	for _, t := range nodes {
		d.edges(t)
	}
	d.line("}")
	_, err := io.WriteString(w, d.out.String())
	return err
}

// unreadable returns why the graph cannot be read, or nil.
func (g *Graph) unreadable() error {
	if g == nil {
		return g.errorf(errNil, "the graph is nil")
	}
	release, err := retainChecked(g.ctx.withDependencies())
	if err != nil {
		return during(err, g.operand())
	}
	release()
	return g.errorf(nil, "the graph is empty; add tensors by Expand")
}

type dotWriter struct {
	ids map[*C.struct_ggml_tensor]string
	out strings.Builder
}

func (d *dotWriter) line(format string, args ...any) { fmt.Fprintf(&d.out, format+"\n", args...) }

func (d *dotWriter) node(id string, t *Tensor, shape, suffix string) {
	d.ids[t.t] = id
	d.line("\t%s [shape=%s, label=%s%s];", id, shape, dotString(t.String()+suffix), t.dotColour())
}

var dotColours = []struct {
	flag   C.int32_t
	colour string
}{
	{C.GGML_TENSOR_FLAG_LOSS, "salmon"},
	{C.GGML_TENSOR_FLAG_PARAM, "gold"},
	{C.GGML_TENSOR_FLAG_OUTPUT, "lightblue"},
	{C.GGML_TENSOR_FLAG_INPUT, "palegreen"},
}

func (t *Tensor) dotColour() string {
	for _, c := range dotColours {
		if t.flagged(c.flag) {
			return ", fillcolor=" + c.colour
		}
	}
	return ""
}

func (d *dotWriter) edges(t *Tensor) {
	sources, id := t.Sources(), d.ids[t.t]
	view, isView := t.ViewSource()
	for i, source := range sources {
		if d.ids[source.t] == "" {
			continue // the graph has grown meanwhile
		}
		label := ""
		if len(sources) > 1 {
			label = fmt.Sprintf(" [label=%d]", i)
		}
		d.line("\t%s -> %s%s;", d.ids[source.t], id, label)
		if isView && view.Is(source) {
			isView = false
		}
	}
	if isView && d.ids[view.t] != "" {
		d.line("\t%s -> %s [style=dashed];", d.ids[view.t], id)
	}
}

// dotString quotes a text. An unescaped backslash would begin an escape of Graphviz.
func dotString(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", ` `).Replace(s)
	return `"` + s + `"`
}
