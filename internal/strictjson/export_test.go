package strictjson

import (
	"math"
	"reflect"
)

// WalkUnbounded is the walk of Decode without its bounds.
func WalkUnbounded(data []byte, v any) error {
	w := newWalk(data, Options{MaxBytes: math.MaxInt, MaxValues: math.MaxInt})
	w.depth = math.MaxInt
	if f := w.document(kindOf(reflect.TypeOf(v).Elem())); f != nil {
		return f.err()
	}
	return nil
}
