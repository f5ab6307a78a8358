package progress

import "io"

// Later is a line that begins with its first update, for work that may turn out to be done, or whose total is known then.
type Later struct {
	W       io.Writer
	Options // Total is of the first update
	line    *Line
}

// Update is [Line.Update] with the total of the work.
func (l *Later) Update(done, total int64, text string, more ...string) {
	if l.line == nil {
		l.Total = total
		l.line = New(l.W, l.Options)
	}
	l.line.Update(done, text, more...)
}

// Close is [Line.Close], if the line has begun.
func (l *Later) Close() error {
	if l.line == nil {
		return nil
	}
	return l.line.Close()
}
