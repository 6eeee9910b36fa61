;; Imports a global.
;; ends: load "define its own memory"
(module
  (import "env" "g" (global i32))
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (func (export "flynn_route") (param $size i32) (result i64)
    (i64.const 0)))
