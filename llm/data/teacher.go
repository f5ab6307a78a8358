package data

import (
	"slices"
	"strings"
)

// teacher reads the name of the teacher that scores the record.
func (r *record) teacher(x *Example) (f *fault) {
	if x.Teacher, f = r.text("teacher"); f != nil {
		return f
	}
	name := r.p.name("teacher")
	if x.Teacher != "" && !slices.Contains(r.p.teachers, x.Teacher) {
		return faultf(UnknownTeacher, "name a teacher of the run, or leave the key out for the first", "%q is %q; the teachers are %s", name, x.Teacher, strings.Join(r.p.teachers, ", "))
	}
	x.unused = slices.DeleteFunc(x.unused, func(key string) bool { return key == name })
	return nil
}
