;; One match that would take seconds, with all the fuel of the world.
;; ends: fuel
;; limits: fuel=10000000000
(module
  (import "flynn1" "match" (func $match (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (data (i32.const 64) "^.*x.{1000}y")
  (func (export "flynn_route") (param $size i32) (result i64)
    (memory.fill (i32.const 20000) (i32.const 120) (i32.const 40000))
    (loop
      (drop (call $match (i32.const 3) (i32.const 64) (i32.const 12) (i32.const 20000) (i32.const 40000)))
      (br 0))
    (i64.const 0)))
