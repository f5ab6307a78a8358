// Package parquet reads Parquet files as the JSON objects of training data.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/goggml/ggml/internal/filelink"
)

// Records reads the rows of a file, each as a JSON object with the columns in the order of the file. Structs
// become objects, lists become lists, and maps with string keys become objects. Null fields of a struct are
// omitted: all rows of a table have one type, so a row has a null for each field that it lacks. A row is valid
// until the next one is read. Memory holds a page of each column. Records is a data.RecordReader.
func Records(path string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := read(path, yield); err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

var errStopped = errors.New("stopped")

func read(path string, yield func([]byte, error) bool) error {
	f, info, err := filelink.Open(path)
	if err != nil {
		return cause(err)
	}
	defer f.Close()
	file, err := open(f, info.Size())
	if err != nil {
		return err
	}
	for _, group := range file.RowGroups() {
		if err := readGroup(file.Root(), group, yield); err != nil {
			return err
		}
	}
	return nil
}

// cause returns a system error without the file's name, which the caller adds.
func cause(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

func open(r io.ReaderAt, size int64) (file *parquet.File, err error) {
	defer catch(&err)
	file, err = parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, damaged(err)
	}
	return file, nil
}

func damaged(err error) error { return fmt.Errorf("the Parquet file is damaged: %w", err) }

// catch turns a panic of the Parquet library about a file's contents into an error.
func catch(err *error) {
	if p := recover(); p != nil {
		*err = damaged(fmt.Errorf("%v", p))
	}
}

const rowsAtOnce = 64

func readGroup(root *parquet.Column, group parquet.RowGroup, yield func([]byte, error) bool) error {
	rows := group.Rows()
	defer rows.Close()
	buffer := make([]parquet.Row, rowsAtOnce)
	a := &assembler{}
	for {
		n, err := readRows(rows, buffer)
		for _, row := range buffer[:n] {
			if err := a.assemble(root, row); err != nil {
				return err
			}
			if !yield(a.out, nil) {
				return errStopped
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
	}
}

func readRows(rows parquet.Rows, buffer []parquet.Row) (n int, err error) {
	defer catch(&err)
	return rows.ReadRows(buffer)
}

// An assembler builds JSON from the values of a row by their levels, as in Dremel (Melnik et al., 2010). The
// definition level is the depth to which the value's path is defined; the repetition level is the list that the
// value continues.
type assembler struct {
	leaves [][]parquet.Value // unread values of each column
	out    []byte
}

func (a *assembler) assemble(root *parquet.Column, row parquet.Row) (err error) {
	defer catch(&err)
	a.out, a.leaves = a.out[:0], a.leaves[:0]
	row.Range(func(_ int, values []parquet.Value) bool {
		a.leaves = append(a.leaves, values)
		return true
	})
	a.object(root)
	return nil
}

// next returns the next value of the first leaf below a column. Its levels are the column's, too.
func (a *assembler) next(c *parquet.Column) parquet.Value {
	for !c.Leaf() {
		c = c.Columns()[0]
	}
	return a.leaves[c.Index()][0]
}

func (a *assembler) isNull(c *parquet.Column) bool {
	return a.next(c).DefinitionLevel() < c.MaxDefinitionLevel()
}

// continues reports whether the list of a repeated column has another item.
func (a *assembler) continues(c *parquet.Column) bool {
	leaf := c
	for !leaf.Leaf() {
		leaf = leaf.Columns()[0]
	}
	values := a.leaves[leaf.Index()]
	return len(values) > 0 && values[0].RepetitionLevel() == c.MaxRepetitionLevel()
}

// skip passes the placeholder of a null or empty column.
func (a *assembler) skip(c *parquet.Column) {
	if c.Leaf() {
		a.leaves[c.Index()] = a.leaves[c.Index()][1:]
		return
	}
	for _, child := range c.Columns() {
		a.skip(child)
	}
}

func (a *assembler) text(s string) { a.out = append(a.out, s...) }

// value writes a column, or null.
func (a *assembler) value(c *parquet.Column) {
	switch {
	case a.isNull(c):
		a.skip(c)
		a.text("null")
	case c.Leaf():
		v := a.leaves[c.Index()][0]
		a.skip(c)
		a.out = appendLeaf(a.out, c, v)
	case isList(c):
		a.list(c.Columns()[0])
	case isTextMap(c):
		a.entries(c.Columns()[0])
	default:
		a.object(c)
	}
}

func (a *assembler) object(c *parquet.Column) {
	a.text("{")
	first := true
	for _, child := range c.Columns() {
		if !child.Repeated() && a.isNull(child) {
			a.skip(child)
			continue
		}
		if !first {
			a.text(", ")
		}
		first = false
		a.out = appendQuoted(a.out, child.Name())
		a.text(": ")
		if child.Repeated() {
			a.list(child)
		} else {
			a.value(child)
		}
	}
	a.text("}")
}

// items calls f for each item of a repeated column, with commas between.
func (a *assembler) items(c *parquet.Column, f func()) {
	if a.isNull(c) {
		a.skip(c)
		return
	}
	for {
		f()
		if !a.continues(c) {
			return
		}
		a.text(", ")
	}
}

func (a *assembler) list(repeated *parquet.Column) {
	a.text("[")
	a.items(repeated, func() { a.value(element(repeated)) })
	a.text("]")
}

// entries writes a map with string keys.
func (a *assembler) entries(repeated *parquet.Column) {
	key, value := repeated.Columns()[0], repeated.Columns()[1]
	a.text("{")
	a.items(repeated, func() {
		a.value(key)
		a.text(": ")
		a.value(value)
	})
	a.text("}")
}

// element returns the column of a list's items: the only field of its repeated group, or the repeated column
// itself in the older forms that the specification lists (github.com/apache/parquet-format, LogicalTypes.md).
func element(repeated *parquet.Column) *parquet.Column {
	if repeated.Leaf() || len(repeated.Columns()) != 1 || repeated.Name() == "array" || strings.HasSuffix(repeated.Name(), "_tuple") {
		return repeated
	}
	return repeated.Columns()[0]
}

func isList(c *parquet.Column) bool {
	t := c.Type().LogicalType()
	return t != nil && t.List != nil && len(c.Columns()) == 1 && c.Columns()[0].Repeated()
}

func isTextMap(c *parquet.Column) bool {
	t := c.Type().LogicalType()
	if t == nil || t.Map == nil || len(c.Columns()) != 1 || !c.Columns()[0].Repeated() || len(c.Columns()[0].Columns()) != 2 {
		return false
	}
	key := c.Columns()[0].Columns()[0]
	return key.Leaf() && key.Type().Kind() == parquet.ByteArray
}

func appendLeaf(out []byte, c *parquet.Column, v parquet.Value) []byte {
	unsigned := false
	if t := c.Type().LogicalType(); t != nil && t.Integer != nil {
		unsigned = !t.Integer.IsSigned
	}
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.AppendBool(out, v.Boolean())
	case parquet.Int32:
		if unsigned {
			return strconv.AppendUint(out, uint64(v.Uint32()), 10)
		}
		return strconv.AppendInt(out, int64(v.Int32()), 10)
	case parquet.Int64:
		if unsigned {
			return strconv.AppendUint(out, v.Uint64(), 10)
		}
		return strconv.AppendInt(out, v.Int64(), 10)
	case parquet.Float:
		return appendFloat(out, float64(v.Float()), 32)
	case parquet.Double:
		return appendFloat(out, v.Double(), 64)
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return appendQuoted(out, string(v.ByteArray()))
	}
	return appendQuoted(out, v.String())
}

// appendFloat writes a number; NaN and infinities become null, as JSON lacks them.
func appendFloat(out []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(out, "null"...)
	}
	return strconv.AppendFloat(out, f, 'g', -1, bits)
}

// appendQuoted quotes a text without checking that it is UTF-8; the reader checks.
func appendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
