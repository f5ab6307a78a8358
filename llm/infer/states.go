package infer

import "github.com/goggml/ggml/internal/testhook"

// rewind ends the sequence of a slot at the nearest position at or before n whose states
// can be restored.
func (d *decoder) rewind(slot, n int) (at int, err error) {
	d.cache.forget(slot, n)
	return n, nil
}

// copyPrefix makes the sequence of slot dst the beginning of that of slot src, up to the
// nearest position at or before n whose states src can give.
func (d *decoder) copyPrefix(dst, src, n int) (at int, err error) {
	if n == 0 {
		return d.rewind(dst, 0)
	}
	if err := d.cache.copy(dst, src, n); err != nil {
		return 0, err
	}
	return n, nil
}

func (s *Session) rewind(slot, n int) (at int, err error) { return s.d.rewind(slot, restorable(n)) }

// copyPrefix copies to a slot what is known of the first n tokens of a sequence; where it
// ends, its states are there.
func (s *Session) copyPrefix(dst int, src *Sequence, n int) (at int, err error) {
	if n < src.Len() {
		n = restorable(n)
	}
	return s.d.copyPrefix(dst, src.slot, n)
}

// restorable is the nearest position that tests allow.
func restorable(n int) int {
	if testhook.RestoreStep > 0 {
		return n - n%testhook.RestoreStep
	}
	return n
}
