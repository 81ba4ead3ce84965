package jsc

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// symbols are the addresses of the engine's functions. Those whose arguments
// are all words are called by address; the few that take or give a double are
// bound to a Go function, which costs more.
type symbols struct {
	contextGroupCreate, contextGroupClearTimeLimit                                          uintptr
	globalContextCreateInGroup, globalContextSetEvalEnabled                                 uintptr
	contextGetGlobalObject, unhandledRejection                                              uintptr
	evaluateScript, checkScriptSyntax                                                       uintptr
	classCreate, objectMake, objectGetPrivate                                               uintptr
	objectCallAsFunction, objectMakeError                                                   uintptr
	objectMakeTypedArray, objectTypedArrayBuffer                                            uintptr
	objectTypedArrayLength, objectTypedArrayOffset                                          uintptr
	objectArrayBufferPtr, objectArrayBufferLength                                           uintptr
	objectGetProxyTarget                                                                    uintptr // 0 where the engine has none
	valueProtect, valueUnprotect, valueGetType, valueTypedArrayType                         uintptr
	valueMakeUndefined, valueMakeNull, valueMakeBoolean, valueMakeString, valueMakeFromJSON uintptr
	valueToBoolean, valueToStringCopy                                                       uintptr
	stringCreate, stringCreateUTF8                                                          uintptr
	stringLength, stringCharacters, stringRelease                                           uintptr
	garbageCollect, configureSignal, setRemoteInspection                                    uintptr
	weakCreate, weakGetObject, weakRelease                                                  uintptr
	valueToNumber                                                                           func(ctx, value uintptr, exception *uintptr) float64
	valueMakeNumber                                                                         func(ctx uintptr, number float64) uintptr
	contextGroupSetTimeLimit                                                                func(group uintptr, seconds float64, callback, data uintptr)
}

// symbol is a function's name and the place for its address.
type symbol struct {
	name string
	at   *uintptr
}

// needed are the functions that every engine has.
func (s *symbols) needed() []symbol {
	return []symbol{
		{"JSContextGroupCreate", &s.contextGroupCreate},
		{"JSContextGroupClearExecutionTimeLimit", &s.contextGroupClearTimeLimit},
		{"JSGlobalContextCreateInGroup", &s.globalContextCreateInGroup},
		{"JSGlobalContextSetEvalEnabled", &s.globalContextSetEvalEnabled},
		{"JSContextGetGlobalObject", &s.contextGetGlobalObject},
		{"JSGlobalContextSetUnhandledRejectionCallback", &s.unhandledRejection},
		{"JSEvaluateScript", &s.evaluateScript},
		{"JSCheckScriptSyntax", &s.checkScriptSyntax},
		{"JSClassCreate", &s.classCreate},
		{"JSObjectMake", &s.objectMake},
		{"JSObjectGetPrivate", &s.objectGetPrivate},
		{"JSObjectCallAsFunction", &s.objectCallAsFunction},
		{"JSObjectMakeError", &s.objectMakeError},
		{"JSObjectMakeTypedArray", &s.objectMakeTypedArray},
		{"JSObjectGetTypedArrayBuffer", &s.objectTypedArrayBuffer},
		{"JSObjectGetTypedArrayByteLength", &s.objectTypedArrayLength},
		{"JSObjectGetTypedArrayByteOffset", &s.objectTypedArrayOffset},
		{"JSObjectGetArrayBufferBytesPtr", &s.objectArrayBufferPtr},
		{"JSObjectGetArrayBufferByteLength", &s.objectArrayBufferLength},
		{"JSValueProtect", &s.valueProtect},
		{"JSValueUnprotect", &s.valueUnprotect},
		{"JSValueGetType", &s.valueGetType},
		{"JSValueGetTypedArrayType", &s.valueTypedArrayType},
		{"JSValueMakeUndefined", &s.valueMakeUndefined},
		{"JSValueMakeNull", &s.valueMakeNull},
		{"JSValueMakeBoolean", &s.valueMakeBoolean},
		{"JSValueMakeString", &s.valueMakeString},
		{"JSValueMakeFromJSONString", &s.valueMakeFromJSON},
		{"JSValueToBoolean", &s.valueToBoolean},
		{"JSValueToStringCopy", &s.valueToStringCopy},
		{"JSStringCreateWithCharacters", &s.stringCreate},
		{"JSStringCreateWithUTF8CString", &s.stringCreateUTF8},
		{"JSStringGetLength", &s.stringLength},
		{"JSStringGetCharactersPtr", &s.stringCharacters},
		{"JSStringRelease", &s.stringRelease},
		{"JSSynchronousGarbageCollectForDebugging", &s.garbageCollect},
		{"JSWeakCreate", &s.weakCreate},
		{"JSWeakGetObject", &s.weakGetObject},
		{"JSWeakRelease", &s.weakRelease},
	}
}

// resolve looks every function up; one that is missing is an error that names it.
func (s *symbols) resolve(handle uintptr) error {
	for _, f := range s.needed() {
		addr, err := purego.Dlsym(handle, f.name)
		if err != nil || addr == 0 {
			return fmt.Errorf("jsc: the engine has no %s", f.name)
		}
		*f.at = addr
	}
	for _, f := range []struct {
		name string
		fn   any
	}{
		{"JSValueToNumber", &s.valueToNumber},
		{"JSValueMakeNumber", &s.valueMakeNumber},
		{"JSContextGroupSetExecutionTimeLimit", &s.contextGroupSetTimeLimit},
	} {
		addr, err := purego.Dlsym(handle, f.name)
		if err != nil || addr == 0 {
			return fmt.Errorf("jsc: the engine has no %s", f.name)
		}
		purego.RegisterFunc(f.fn, addr)
	}
	// Not in every engine; the address stays 0.
	for _, f := range []symbol{
		{"JSObjectGetProxyTarget", &s.objectGetProxyTarget},
		{"JSConfigureSignalForGC", &s.configureSignal},
		{"JSGlobalContextSetRemoteInspectionEnabled", &s.setRemoteInspection},
	} {
		if addr, err := purego.Dlsym(handle, f.name); err == nil {
			*f.at = addr
		}
	}
	return nil
}

// call calls a function of the engine whose arguments are words. Pointers to Go
// memory among them live until it returns.
//
//go:uintptrescapes
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
