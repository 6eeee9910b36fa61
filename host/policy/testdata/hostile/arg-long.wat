;; Names an argument by a pointer of 60,000 slashes.
;; ends: trap
(module
  (import "flynn1" "arg" (func $arg (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (func (export "flynn_tool") (param $size i32) (result i64)
    (memory.fill (i32.const 0) (i32.const 47) (i32.const 60000))
    (drop (call $arg (i32.const 0) (i32.const 60000) (i32.const 0) (i32.const 0)))
    (i64.const 0)))
